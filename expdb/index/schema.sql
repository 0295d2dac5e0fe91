-- The tables of one index generation. Only small facts about runs; curves and points stay in the run folders.
-- Any change here raises SCHEMA in expdb/index/schema.py: another schema is rebuilt, never migrated.

CREATE SCHEMA gen;

CREATE TABLE gen.meta (key VARCHAR NOT NULL, value VARCHAR NOT NULL);

CREATE TABLE gen.runs (
    id VARCHAR NOT NULL,
    experiment VARCHAR NOT NULL,
    variant VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    seed HUGEINT,
    state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    created_at_ms BIGINT NOT NULL,
    ended_at_ms BIGINT,
    last_step BIGINT,
    max_steps BIGINT,
    parent VARCHAR,
    parent_step BIGINT,
    fork VARCHAR,
    fork_step BIGINT,
    objective VARCHAR,
    objective_mode VARCHAR,
    objective_reading VARCHAR,
    value DOUBLE,
    value_step BIGINT,
    best_step BIGINT,
    nonfinite_step BIGINT,
    digest VARCHAR NOT NULL,
    "commit" VARCHAR,
    tree VARCHAR,
    branch VARCHAR,
    snapshot VARCHAR,
    dirty BOOLEAN NOT NULL,
    reproducible BOOLEAN NOT NULL,
    num_attempts BIGINT NOT NULL,
    num_dropped BIGINT NOT NULL,
    path VARCHAR NOT NULL,
    bytes BIGINT NOT NULL,
    labels VARCHAR[] NOT NULL,
    notes VARCHAR[] NOT NULL,
    problems VARCHAR[] NOT NULL,
    lacks VARCHAR[] NOT NULL,      -- required metrics without a finite value: the run does not count
    settings VARCHAR NOT NULL,     -- JSON of the effective `expdb:` section
    study VARCHAR,
    host VARCHAR,                  -- of the latest attempt; filtered by, never shown
    version VARCHAR NOT NULL       -- of status.json: mtime_ns:inode:size
);

-- One row a config key. `text` is the text itself, or JSON for other kinds; `number` only for ints and floats.
CREATE TABLE gen.params (run VARCHAR NOT NULL, key VARCHAR NOT NULL, kind VARCHAR NOT NULL, text VARCHAR, number DOUBLE);

CREATE TABLE gen.series (
    run VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    count BIGINT NOT NULL,
    nonfinite BIGINT NOT NULL,
    first_step BIGINT NOT NULL,
    first DOUBLE NOT NULL,
    last_step BIGINT NOT NULL,
    last DOUBLE NOT NULL,
    min_step BIGINT,
    min DOUBLE,
    max_step BIGINT,
    max DOUBLE,
    mean_last_3 DOUBLE,
    nonfinite_step BIGINT
);

CREATE TABLE gen.attempts (
    run VARCHAR NOT NULL,
    number BIGINT NOT NULL,
    started_at_ms BIGINT NOT NULL,
    resumed_from BIGINT,
    "commit" VARCHAR,
    tree VARCHAR,
    branch VARCHAR,
    snapshot VARCHAR,
    dirty BOOLEAN NOT NULL,
    num_edits BIGINT NOT NULL,
    reproducible BOOLEAN NOT NULL,
    reasons VARCHAR[] NOT NULL,
    work_tree VARCHAR NOT NULL,
    environment VARCHAR NOT NULL,  -- JSON: name -> text
    data VARCHAR NOT NULL          -- JSON: name -> {digest, ...}
);

CREATE TABLE gen.files (run VARCHAR NOT NULL, path VARCHAR NOT NULL, bytes BIGINT, sha256 VARCHAR);

CREATE TABLE gen.checkpoints (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    complete BOOLEAN NOT NULL,
    attempt BIGINT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    problem VARCHAR NOT NULL
);

CREATE TABLE gen.evals (
    run VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    task VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    metric VARCHAR NOT NULL,
    value DOUBLE NOT NULL,
    n BIGINT,
    shots BIGINT,
    scorer VARCHAR NOT NULL,
    items_digest VARCHAR NOT NULL,
    created_at_ms BIGINT NOT NULL
);

CREATE TABLE gen.events (
    run VARCHAR NOT NULL,
    step BIGINT NOT NULL,
    severity VARCHAR NOT NULL,
    rule VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    created_at_ms BIGINT NOT NULL,
    key VARCHAR NOT NULL,          -- the metric that it is about; empty where it is about none
    now VARCHAR NOT NULL,          -- what became of it: open, critical since 201, over at 154
    acknowledged BOOLEAN NOT NULL, -- whether somebody has seen it as severe as it is now
    place BIGINT NOT NULL          -- among the events of its run, in the order in which they were said
);

CREATE TABLE gen.used_files (run VARCHAR NOT NULL, attempt BIGINT NOT NULL, path VARCHAR NOT NULL, blob VARCHAR NOT NULL);
