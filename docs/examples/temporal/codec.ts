// Reads and writes the payloads of an installation with an encryption key, through its codec server.
import type { Payload, PayloadCodec } from "@temporalio/common";

type Wire = { metadata?: Record<string, string>; data?: string };

export class PerdureCodec implements PayloadCodec {
  constructor(
    private readonly address: string, // http://127.0.0.1:8236
    private readonly token: string, // of codec.token in the home folder
    private readonly namespace = "default",
  ) {}

  encode = (payloads: Payload[]): Promise<Payload[]> => this.convert("encode", payloads);
  decode = (payloads: Payload[]): Promise<Payload[]> => this.convert("decode", payloads);

  private async convert(verb: string, payloads: Payload[]): Promise<Payload[]> {
    const response = await fetch(`${this.address}/${verb}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "x-namespace": this.namespace },
      body: JSON.stringify({ payloads: payloads.map(written) }),
    });
    if (!response.ok) throw new Error(`The codec server refuses: ${await response.text()}`);
    const answer = (await response.json()) as { payloads?: Wire[] };
    return (answer.payloads ?? []).map(read);
  }
}

function written({ metadata, data }: Payload): Wire {
  const texts = Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)]);
  return { metadata: Object.fromEntries(texts), data: base64(data ?? new Uint8Array()) };
}

function read({ metadata, data }: Wire): Payload {
  const bytes = Object.entries(metadata ?? {}).map(([name, text]) => [name, Buffer.from(text, "base64")]);
  return { metadata: Object.fromEntries(bytes), data: Buffer.from(data ?? "", "base64") };
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
