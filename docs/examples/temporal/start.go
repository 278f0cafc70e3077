// Start a loop with the plain Temporal SDK, approve what it asks for, and read the result.
//
// go mod init notes && go get go.temporal.io/sdk && go run start.go task.json
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"go.temporal.io/sdk/client"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	var task, result map[string]any
	must(0, json.Unmarshal(must(os.ReadFile(os.Args[1])), &task))
	c, ctx := must(client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE")})), context.Background()
	options := client.StartWorkflowOptions{ID: fmt.Sprint("notes-", time.Now().UnixNano()), TaskQueue: "perdure"}
	run := must(c.ExecuteWorkflow(ctx, options, "AgentLoop", task))
	for phase := ""; phase != "ended"; time.Sleep(time.Second) {
		var status struct{ Phase string; Gates []struct{ Name, Prompt string } }
		must(0, must(c.QueryWorkflow(ctx, run.GetID(), "", "status")).Get(&status))
		for _, gate := range status.Gates {
			fmt.Println("approve:", gate.Prompt)
			must(0, c.SignalWorkflow(ctx, run.GetID(), "", "approve", gate.Name)) // binds to exactly these arguments
		}
		phase = status.Phase
	}
	must(0, run.Get(ctx, &result))
	fmt.Println(result["outcome"], result["output"])
}
