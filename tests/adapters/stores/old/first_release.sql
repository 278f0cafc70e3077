BEGIN TRANSACTION;
CREATE TABLE attempts (
    key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    opening BIGINT NOT NULL,
    execution TEXT NOT NULL,
    root TEXT NOT NULL,
    run TEXT NOT NULL,
    phase TEXT NOT NULL,
    role TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    model TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'answered', 'failed', 'lost', 'duplicate')),
    usage TEXT NOT NULL,
    cost_usd TEXT,
    estimate TEXT NOT NULL,
    estimate_cost_usd TEXT,
    at_estimate BOOLEAN NOT NULL,
    settled BOOLEAN NOT NULL,
    started_at TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key, attempt, opening)
);
INSERT INTO "attempts" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s3',1,0,'01a20163-7b60-79f9-82d7-f8a3198cc74d','refine-old','refine-old','executing','executor',1,'scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab','63278c404451c46c7f1e9576dcc72aae8f3710fdef5231d8b9cf2c1e1f0f1284','answered','{"input_tokens":38,"output_tokens":6,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00','{"input_tokens":38,"output_tokens":8192,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00',0,0,'2026-11-22T03:53:46.724563+00:00',0.009);
INSERT INTO "attempts" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s5',1,0,'01a20163-7b60-79f9-82d7-f8a3198cc74d','refine-old','refine-old','executing','executor',2,'scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab','85bd379178eb95e04f3a1424a89bf1bbc7561b4f4547e99cc7faf4357133f271','answered','{"input_tokens":75,"output_tokens":7,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00','{"input_tokens":75,"output_tokens":8192,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00',0,0,'2026-11-22T03:53:46.867316+00:00',0.007);
INSERT INTO "attempts" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s7',1,0,'01a20163-7b60-79f9-82d7-f8a3198cc74d','refine-old','refine-old','executing','executor',3,'scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab','218caf779d50110adfa2489db31e1282097c791e0c56e702a8666947ab947e06','answered','{"input_tokens":74,"output_tokens":10,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00','{"input_tokens":74,"output_tokens":8192,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0}','0.00',0,0,'2026-11-22T03:53:47.002850+00:00',0.003);
CREATE TABLE blobs (
    address TEXT PRIMARY KEY,
    content BLOB NOT NULL,
    written_at TEXT NOT NULL
);
CREATE TABLE installation (
    slot BIGINT PRIMARY KEY CHECK (slot = 1),
    id TEXT NOT NULL
);
CREATE TABLE iterations (
    run TEXT NOT NULL,
    position BIGINT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (run, position)
);
INSERT INTO "iterations" VALUES('refine-old',1,'{"index":1,"decision":"continue","score":0.5,"dimensions":{"words":{"score":0.5,"source":"check","carried":false,"stale":false,"gap":"missing: bay, fig, gum, nut, box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: bay, fig, gum, nut, box","detail":"","location":"","fix":"Use bay, fig, gum, nut, box."}],"evaluation":"full","usage":{"input_tokens":38,"output_tokens":6,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.012,"started_at":"2026-11-22T03:53:46.683562Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_040894e33ce3ed04a27f","stop_reason":"end_turn","break_reason":null,"output_ref":"sha256:560d2d405498e37cf989057ea6c2a58393d23b81ffa75f86f4c73c4898349883","tree_ref":null,"adaptation":null,"transcript":"sha256:662c9392273b30db5bc4503ef6ac8c8969e6b392b462752b2bdd7c451f6c15b1","state_ref":null,"gain":null,"error":null}');
INSERT INTO "iterations" VALUES('refine-old',2,'{"index":2,"decision":"continue","score":0.6,"dimensions":{"words":{"score":0.6,"source":"check","carried":false,"stale":false,"gap":"missing: fig, gum, nut, box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: fig, gum, nut, box","detail":"","location":"","fix":"Use fig, gum, nut, box."}],"evaluation":"full","usage":{"input_tokens":75,"output_tokens":7,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.013,"started_at":"2026-11-22T03:53:46.822294Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_36be6635da2a0b89b7d3","stop_reason":"end_turn","break_reason":null,"output_ref":"sha256:85e57132a95ce9254c81914d9581b06f59ad075f47fc3464bf606cd44f26879f","tree_ref":null,"adaptation":null,"transcript":"sha256:93b9d5500e84250a0b6bf60789b600e574962fccc12489e083e6e83f8aac127e","state_ref":null,"gain":0.1,"error":null}');
INSERT INTO "iterations" VALUES('refine-old',3,'{"index":3,"decision":"accept","score":0.9,"dimensions":{"words":{"score":0.9,"source":"check","carried":false,"stale":false,"gap":"missing: box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: box","detail":"","location":"","fix":"Use box."}],"evaluation":"full","usage":{"input_tokens":74,"output_tokens":10,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.008,"started_at":"2026-11-22T03:53:46.923068Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_9d76f6bdb7b2aff4e333","stop_reason":"end_turn","break_reason":"quality","output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6","tree_ref":null,"adaptation":null,"transcript":"sha256:6422b14c1d8c00c2b68c58df1193c123de0e37b2d59f9eae51c18c9187cac18e","state_ref":null,"gain":0.3,"error":null}');
CREATE TABLE live_texts (
    run TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    text TEXT NOT NULL
);
CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    attempt BIGINT NOT NULL,
    opening BIGINT NOT NULL,
    request_hash TEXT NOT NULL,
    reply TEXT NOT NULL,
    FOREIGN KEY (key, attempt, opening) REFERENCES attempts (key, attempt, opening)
);
INSERT INTO "replies" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s3',1,0,'63278c404451c46c7f1e9576dcc72aae8f3710fdef5231d8b9cf2c1e1f0f1284','sha256:48ab0a1b7803ddb0d6d91e7cd13a45a62523e0b6032d9685cddc395af1cca62f');
INSERT INTO "replies" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s5',1,0,'85bd379178eb95e04f3a1424a89bf1bbc7561b4f4547e99cc7faf4357133f271','sha256:0280fe53b866f425aeb4b809a9dc607ff5a23c42d2533bb8a5c3c1a86186cb18');
INSERT INTO "replies" VALUES('01a20163-7b60-79f9-82d7-f8a3198cc74d/s7',1,0,'218caf779d50110adfa2489db31e1282097c791e0c56e702a8666947ab947e06','sha256:804a6c355e6fb430355fe61f3fcc4ef9a02673c44981b0303070a25e50455d4f');
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    goal TEXT NOT NULL,
    label TEXT,
    lifecycle TEXT NOT NULL,
    outcome TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    result TEXT,
    status TEXT
);
INSERT INTO "runs" VALUES('refine-old','refine','Name ten trees.',NULL,'completed','accepted','2026-11-22T03:53:46.579348+00:00','2026-11-22T03:53:47.059947+00:00','{"type":"result","id":"refine-old","kind":"refine","outcome":"accepted","reason":"quality_met","explanation":"The result reached the quality that was asked for (score 0.9, threshold 0.8).","quality_met":true,"partial":false,"output":null,"output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6","best":{"iteration":3,"score":0.9,"output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6"},"last":{"iteration":3,"score":0.9,"output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6"},"iterations":[{"index":1,"decision":"continue","score":0.5,"dimensions":{"words":{"score":0.5,"source":"check","carried":false,"stale":false,"gap":"missing: bay, fig, gum, nut, box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: bay, fig, gum, nut, box","detail":"","location":"","fix":"Use bay, fig, gum, nut, box."}],"evaluation":"full","usage":{"input_tokens":38,"output_tokens":6,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.012,"started_at":"2026-11-22T03:53:46.683562Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_040894e33ce3ed04a27f","stop_reason":"end_turn","break_reason":null,"output_ref":"sha256:560d2d405498e37cf989057ea6c2a58393d23b81ffa75f86f4c73c4898349883","tree_ref":null,"adaptation":null,"transcript":"sha256:662c9392273b30db5bc4503ef6ac8c8969e6b392b462752b2bdd7c451f6c15b1","state_ref":null,"gain":null,"error":null},{"index":2,"decision":"continue","score":0.6,"dimensions":{"words":{"score":0.6,"source":"check","carried":false,"stale":false,"gap":"missing: fig, gum, nut, box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: fig, gum, nut, box","detail":"","location":"","fix":"Use fig, gum, nut, box."}],"evaluation":"full","usage":{"input_tokens":75,"output_tokens":7,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.013,"started_at":"2026-11-22T03:53:46.822294Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_36be6635da2a0b89b7d3","stop_reason":"end_turn","break_reason":null,"output_ref":"sha256:85e57132a95ce9254c81914d9581b06f59ad075f47fc3464bf606cd44f26879f","tree_ref":null,"adaptation":null,"transcript":"sha256:93b9d5500e84250a0b6bf60789b600e574962fccc12489e083e6e83f8aac127e","state_ref":null,"gain":0.1,"error":null},{"index":3,"decision":"accept","score":0.9,"dimensions":{"words":{"score":0.9,"source":"check","carried":false,"stale":false,"gap":"missing: box"}},"findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: box","detail":"","location":"","fix":"Use box."}],"evaluation":"full","usage":{"input_tokens":74,"output_tokens":10,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"cost_usd":"0","model_calls":1,"tool_calls":0,"tools_offered":5,"calls":[],"has_tool_calls":false,"duration_s":0.008,"started_at":"2026-11-22T03:53:46.923068Z","model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","request_id":"req_scripted_9d76f6bdb7b2aff4e333","stop_reason":"end_turn","break_reason":"quality","output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6","tree_ref":null,"adaptation":null,"transcript":"sha256:6422b14c1d8c00c2b68c58df1193c123de0e37b2d59f9eae51c18c9187cac18e","state_ref":null,"gain":0.3,"error":null}],"iteration_count":3,"spend":{"tokens":210,"cost_usd":"0","model_calls":3,"tool_calls":0,"workers":0,"wall_time_s":0.458,"active_time_s":0.033,"usage":{"input_tokens":187,"output_tokens":23,"cache_read_tokens":0,"cache_write_5m_tokens":0,"cache_write_1h_tokens":0},"by_phase":{"executing":{"tokens":210,"input_tokens":187,"output_tokens":23,"cost_usd":"0","model_calls":3}},"by_model":{"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab":{"tokens":210,"input_tokens":187,"output_tokens":23,"cost_usd":"0","model_calls":3}},"unconfirmed":{"tokens":0,"cost_usd":"0"}},"savings":{"naive_input_tokens":197,"input_tokens":187,"evaluations_skipped":0,"judge_calls_saved":0},"open_findings":[{"id":"check:words","severity":"important","dimension":"words","title":"missing: box","detail":"","location":"","fix":"Use box."}],"artifacts":[],"tools_used":{},"exhausted":null,"skills":[],"tools_created":[],"transcript":"sha256:6422b14c1d8c00c2b68c58df1193c123de0e37b2d59f9eae51c18c9187cac18e","learnings_started":false,"unread_input":[],"models_used":["scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab"],"truncated":false,"error":null,"started_at":"2026-11-22T03:53:46.601570Z","ended_at":"2026-11-22T03:53:47.059947Z"}','{"id":"refine-old","kind":"refine","goal":"Name ten trees.","label":null,"lifecycle":"completed","phase":"ended","blocked_on":null,"iteration":3,"iteration_limit":3,"elapsed_s":0.458,"step":null,"trajectory":[{"iteration":1,"score":0.5,"decision":"continue"},{"iteration":2,"score":0.6,"decision":"continue"},{"iteration":3,"score":0.9,"decision":"accept"}],"parts":[{"name":"words","passed":false,"detail":"missing: box"}],"best":{"iteration":3,"score":0.9,"output_ref":"sha256:81a602bf6ac64b62e6a828d1bbe458b56668205cdd996053149bd367043350d6"},"budget":{"limits":{"tokens":200000,"cost_usd":"2.00","active_time":300.0,"wall_time":null,"output_tokens":null,"model_calls":null,"tool_calls":null,"workers":null,"iterations":null,"depth":4,"count_cache_reads":false,"wrap_up":0.1,"on_exhausted":"abort","unknown_price":"block"},"tokens":210,"cost_usd":"0","model_calls":3,"tool_calls":0,"active_time_s":0.033,"reserved_tokens":0,"reserved_cost_usd":"0","fraction_remaining":0.999,"warned":[]},"gates":[],"children":[],"events":[{"seq":15,"at":"2026-11-22T03:53:46.923068Z","run":"refine-old","iteration":2,"type":"iteration_completed","data":{"decision":"continue","score":0.6}},{"seq":16,"at":"2026-11-22T03:53:46.923068Z","run":"refine-old","iteration":3,"type":"iteration_started","data":{}},{"seq":17,"at":"2026-11-22T03:53:46.923068Z","run":"refine-old","iteration":3,"type":"model_call_started","data":{"model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","role":"executor"}},{"seq":18,"at":"2026-11-22T03:53:47.031157Z","run":"refine-old","iteration":3,"type":"model_replied","data":{"model":"scripted:sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab","tokens":84,"stop_reason":"end_turn","text":"oak elm ash fir yew bay fig gum nut number3"}},{"seq":19,"at":"2026-11-22T03:53:47.031157Z","run":"refine-old","iteration":3,"type":"text_answered","data":{"source":"reply"}},{"seq":20,"at":"2026-11-22T03:53:47.059947Z","run":"refine-old","iteration":3,"type":"evaluated","data":{"kind":"full","scores":{"words":0.9}}},{"seq":21,"at":"2026-11-22T03:53:47.059947Z","run":"refine-old","iteration":3,"type":"decided","data":{"decision":"accept","row":"quality","why":"The result reached the quality that was asked for (score 0.9, threshold 0.8)."}},{"seq":22,"at":"2026-11-22T03:53:47.059947Z","run":"refine-old","iteration":3,"type":"iteration_completed","data":{"decision":"accept","score":0.9}},{"seq":23,"at":"2026-11-22T03:53:47.059947Z","run":"refine-old","iteration":3,"type":"condition_met","data":{"condition":"quality","reason":"quality_met"}},{"seq":24,"at":"2026-11-22T03:53:47.059947Z","run":"refine-old","iteration":3,"type":"ended","data":{"outcome":"accepted","reason":"quality_met"}}],"last_event":24,"plan":[],"refused":[],"amendments":[],"outcome":"accepted","reason":"quality_met","explanation":"The result reached the quality that was asked for (score 0.9, threshold 0.8).","trouble":null,"source":"run","links":{},"started_at":"2026-11-22T03:53:46.601570Z"}');
CREATE TABLE schema_versions (number BIGINT PRIMARY KEY, name TEXT);
INSERT INTO "schema_versions" VALUES(1,'stores');
CREATE TABLE script_entries (
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    entry BIGINT NOT NULL,
    taken_at TEXT NOT NULL,
    PRIMARY KEY (run, key, entry)
);
INSERT INTO "script_entries" VALUES('refine-old','sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab/01a20163-7b60-79f9-82d7-f8a3198cc74d/s3',0,'2026-11-22T03:53:46.730471+00:00');
INSERT INTO "script_entries" VALUES('refine-old','sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab/01a20163-7b60-79f9-82d7-f8a3198cc74d/s5',1,'2026-11-22T03:53:46.876156+00:00');
INSERT INTO "script_entries" VALUES('refine-old','sha256:13afd695dbeeb30a51fe82d63a6570c56394fc6e5bc93beda88b39de17e57fab/01a20163-7b60-79f9-82d7-f8a3198cc74d/s7',2,'2026-11-22T03:53:47.007848+00:00');
CREATE TABLE seals (
    execution TEXT PRIMARY KEY,
    sealed_at TEXT NOT NULL
);
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);
CREATE INDEX attempts_by_execution ON attempts (execution);
CREATE INDEX attempts_by_run ON attempts (run);
COMMIT;
