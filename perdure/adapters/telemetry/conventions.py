"""Attribute names of our spans: OpenTelemetry's GenAI conventions, and a few of our own.

They are defined here because the constants of the semantic-conventions package are deprecated, and
there is no package yet that replaces them.
"""

OPERATION = "gen_ai.operation.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"

EVALUATION_EVENT = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"

ERROR_TYPE = "error.type"

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

STEP = "perdure.step"
ATTEMPT = "perdure.attempt"
ITERATION = "perdure.iteration"
PHASE = "perdure.phase"
ROLE = "perdure.role"
STATUS = "perdure.status"
COST_USD = "perdure.cost_usd"
ATTEMPTS = "perdure.attempts"
REPLAYED = "perdure.replayed"
EVALUATION_SOURCE = "perdure.evaluation.source"
EVALUATION_FINDINGS = "perdure.evaluation.findings"
EVALUATION_CARRIED = "perdure.evaluation.carried"
EVALUATION_STALE = "perdure.evaluation.stale"
EVALUATION_PROBLEMS = "perdure.evaluation.problems"
