-- Times are milliseconds since 1970 UTC, names are those of the protocol and the command line, as in SQLite.

-- Numbers of rows, over all tables: by time and number, pages are in order.
CREATE SEQUENCE row_numbers CACHE 100;

-- Which batch brought a run, and which its end: these alone count it.
CREATE SEQUENCE batch_numbers;

CREATE TABLE runs (
    id bigint NOT NULL DEFAULT nextval('row_numbers'),
    job text NOT NULL, item integer NOT NULL, token bigint NOT NULL,
    fire bigint NOT NULL, source text NOT NULL,
    instance text NOT NULL, worker text NOT NULL, trigger_id text,
    state text NOT NULL, outcome text, requeued boolean NOT NULL,
    since bigint NOT NULL, started bigint, ended bigint,
    error text NOT NULL, output text NOT NULL,
    processed bigint NOT NULL, failed bigint NOT NULL, attempt integer NOT NULL,
    begun_in bigint, ended_in bigint,
    PRIMARY KEY (job, fire, item, token, since)) PARTITION BY RANGE (since);
CREATE INDEX runs_since ON runs (since, id);
CREATE INDEX runs_job ON runs (job, since, id);
CREATE INDEX runs_instance ON runs (instance, since);
CREATE INDEX runs_job_odd ON runs (job, state, since, id) WHERE state <> 'TASK_FINISHED';
CREATE INDEX runs_odd ON runs (state, since, id) WHERE state <> 'TASK_FINISHED';
CREATE INDEX runs_open ON runs (job, item, token) WHERE outcome IS NULL;
CREATE INDEX runs_token ON runs (job, item, token);
CREATE INDEX runs_misfire ON runs (job, item, fire) WHERE source = 'MISFIRE';

CREATE TABLE events (
    id bigint NOT NULL DEFAULT nextval('row_numbers'),
    at bigint NOT NULL, job text, kind text NOT NULL, text text NOT NULL, principal text,
    sender text NOT NULL, number bigint NOT NULL,
    PRIMARY KEY (sender, number, at)) PARTITION BY RANGE (at);
CREATE INDEX events_at ON events (at, id);
CREATE INDEX events_job ON events (job, at, id);

-- Who did what. It is kept by number, not by age.
CREATE TABLE audit (
    id bigint NOT NULL DEFAULT nextval('row_numbers'),
    at bigint NOT NULL, job text, kind text NOT NULL, text text NOT NULL, principal text,
    sender text NOT NULL, number bigint NOT NULL,
    PRIMARY KEY (sender, number));
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_job ON audit (job, at, id);
CREATE INDEX audit_principal ON audit (principal, id);

-- Scheduled times of an item in a row that were not run on their own, for one reason.
CREATE TABLE not_run (
    id bigint NOT NULL DEFAULT nextval('row_numbers'),
    job text NOT NULL, item integer NOT NULL,
    first bigint NOT NULL, latest bigint NOT NULL, count bigint NOT NULL,
    result text NOT NULL, reason text NOT NULL, recorded bigint NOT NULL,
    PRIMARY KEY (job, item, result, reason, first));
CREATE INDEX not_run_job ON not_run (job, latest);
CREATE INDEX not_run_item ON not_run (job, item, latest);
CREATE INDEX not_run_recorded ON not_run (recorded);

-- Who owned which item, from when to when. `assigned` is the assignment of each job that was written last.
CREATE TABLE assignments (
    id bigint NOT NULL DEFAULT nextval('row_numbers') PRIMARY KEY,
    job text NOT NULL, incarnation text NOT NULL, item integer NOT NULL, generation bigint NOT NULL,
    instance text NOT NULL, since bigint NOT NULL, ended bigint,
    reason text NOT NULL, end_reason text NOT NULL DEFAULT '',
    UNIQUE (job, incarnation, item, generation));
CREATE INDEX assignments_job ON assignments (job, since, id);
CREATE INDEX assignments_item ON assignments (job, item, since, id);
CREATE INDEX assignments_open ON assignments (job) WHERE ended IS NULL;
CREATE INDEX assignments_ended ON assignments (ended);
CREATE TABLE assigned (
    job text PRIMARY KEY, incarnation text NOT NULL, generation bigint NOT NULL, at bigint NOT NULL);

-- What was counted, by hours since 1970.
CREATE TABLE hourly (
    job text NOT NULL, hour bigint NOT NULL, what text NOT NULL, n bigint NOT NULL,
    PRIMARY KEY (job, hour, what)) WITH (fillfactor = 70);
CREATE INDEX hourly_hour ON hourly (hour);

-- Up to which of its rows each coordinator has sent: in the same transaction as the rows, so that a batch whose answer was
-- lost is known when it comes again.
CREATE TABLE senders (
    sender text PRIMARY KEY, sent bigint NOT NULL, seen bigint NOT NULL);
