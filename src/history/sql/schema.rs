//! The tables of the history, as steps from each version to the next.

/// The schema's migrations: step `n` leads from version `n` to `n + 1`. Only ever appended.
pub(crate) const STEPS: [&str; 7] = [
    "
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL, item INTEGER NOT NULL, token INTEGER NOT NULL,
        fire INTEGER NOT NULL, source TEXT NOT NULL,
        instance TEXT NOT NULL, worker TEXT NOT NULL, trigger_id TEXT,
        state TEXT NOT NULL, outcome TEXT, requeued INTEGER NOT NULL,
        since INTEGER NOT NULL, started INTEGER, ended INTEGER,
        error TEXT NOT NULL, output TEXT NOT NULL,
        processed INTEGER NOT NULL, failed INTEGER NOT NULL, attempt INTEGER NOT NULL,
        UNIQUE (job, item, token)) STRICT;
    CREATE INDEX runs_since ON runs (since);
    CREATE INDEX runs_job ON runs (job, since);
    CREATE INDEX runs_job_state ON runs (job, state, since);
    CREATE INDEX runs_fire ON runs (job, item, fire);
    CREATE INDEX runs_instance ON runs (instance, since);
    CREATE INDEX runs_state ON runs (state, since);
    CREATE INDEX runs_open ON runs (job, item) WHERE state = 'TASK_RUNNING';
    CREATE TABLE unrun (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL, item INTEGER NOT NULL,
        first INTEGER NOT NULL, latest INTEGER NOT NULL, count INTEGER NOT NULL,
        became TEXT NOT NULL, reason TEXT NOT NULL, recorded INTEGER NOT NULL,
        UNIQUE (job, item, became, reason, first)) STRICT;
    CREATE INDEX unrun_job ON unrun (job, latest);
    CREATE INDEX unrun_item ON unrun (job, item, latest);
    CREATE INDEX unrun_recorded ON unrun (recorded);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL, job TEXT, kind TEXT NOT NULL, text TEXT NOT NULL, principal TEXT) STRICT;
    CREATE INDEX events_at ON events (at);
    CREATE INDEX events_job ON events (job, at);
    CREATE TABLE daily (
        job TEXT NOT NULL, day INTEGER NOT NULL, what TEXT NOT NULL, n INTEGER NOT NULL,
        PRIMARY KEY (job, day, what)) STRICT, WITHOUT ROWID;
",
    // Rows that are written together are stored together: the runs of one fire, not those of one item, each on a page
    // of its own. Nearly all runs are finished, so the index by state covers only the others.
    "
    ALTER TABLE runs RENAME TO runs_of_before;
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL, item INTEGER NOT NULL, token INTEGER NOT NULL,
        fire INTEGER NOT NULL, source TEXT NOT NULL,
        instance TEXT NOT NULL, worker TEXT NOT NULL, trigger_id TEXT,
        state TEXT NOT NULL, outcome TEXT, requeued INTEGER NOT NULL,
        since INTEGER NOT NULL, started INTEGER, ended INTEGER,
        error TEXT NOT NULL, output TEXT NOT NULL,
        processed INTEGER NOT NULL, failed INTEGER NOT NULL, attempt INTEGER NOT NULL,
        UNIQUE (job, fire, item, token)) STRICT;
    INSERT INTO runs SELECT * FROM runs_of_before ORDER BY id;
    DROP TABLE runs_of_before;
    CREATE INDEX runs_since ON runs (since);
    CREATE INDEX runs_job ON runs (job, since);
    CREATE INDEX runs_instance ON runs (instance, since);
    CREATE INDEX runs_job_odd ON runs (job, state, since) WHERE state <> 'TASK_FINISHED';
    CREATE INDEX runs_odd ON runs (state, since) WHERE state <> 'TASK_FINISHED';
    CREATE INDEX runs_open ON runs (job, item) WHERE state = 'TASK_RUNNING';
    CREATE INDEX runs_misfire ON runs (job, item, fire) WHERE source = 'MISFIRE';
",
    // The audit has its own table, so that rows that workers cause cannot displace it.
    "
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL, job TEXT, kind TEXT NOT NULL, text TEXT NOT NULL, principal TEXT) STRICT;
    INSERT INTO audit SELECT * FROM events WHERE kind IN ('job', 'operation') ORDER BY id;
    DELETE FROM events WHERE kind IN ('job', 'operation');
    CREATE INDEX audit_at ON audit (at);
    CREATE INDEX audit_job ON audit (job, at);
    CREATE INDEX audit_principal ON audit (principal);
",
    // Renamed to the words of the command line and of the protocol.
    "
    ALTER TABLE unrun RENAME TO not_run;
    ALTER TABLE not_run RENAME COLUMN became TO result;
    DROP INDEX unrun_job;
    DROP INDEX unrun_item;
    DROP INDEX unrun_recorded;
    CREATE INDEX not_run_job ON not_run (job, latest);
    CREATE INDEX not_run_item ON not_run (job, item, latest);
    CREATE INDEX not_run_recorded ON not_run (recorded);
",
    // Ownership, with start and end. `assigned` is the last written assignment of each job.
    "
    CREATE TABLE assignments (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL, incarnation TEXT NOT NULL, item INTEGER NOT NULL, generation INTEGER NOT NULL,
        instance TEXT NOT NULL, since INTEGER NOT NULL, ended INTEGER,
        reason TEXT NOT NULL, end_reason TEXT NOT NULL,
        UNIQUE (job, incarnation, item, generation)) STRICT;
    CREATE INDEX assignments_job ON assignments (job, since);
    CREATE INDEX assignments_item ON assignments (job, item, since);
    CREATE INDEX assignments_open ON assignments (job) WHERE ended IS NULL;
    CREATE INDEX assignments_ended ON assignments (ended);
    CREATE TABLE assigned (
        job TEXT PRIMARY KEY, incarnation TEXT NOT NULL, generation INTEGER NOT NULL, at INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;
",
    // A run is open until its end is known, whether or not it is known to have started. Counts are by the hour, and
    // include records; the counts by the day that there were before go to the first hour of each day.
    "
    CREATE TABLE hourly (
        job TEXT NOT NULL, hour INTEGER NOT NULL, what TEXT NOT NULL, n INTEGER NOT NULL,
        PRIMARY KEY (job, hour, what)) STRICT, WITHOUT ROWID;
    DROP INDEX runs_open;
    CREATE INDEX runs_open ON runs (job, item) WHERE outcome IS NULL;
    INSERT INTO hourly SELECT job, day * 24, what, n FROM daily;
    DROP TABLE daily;
",
    // One index both names a run and lists those of its job; with two, each run would be on one more page. Nearly all
    // runs start soon after their scheduled time, so they are found by their start; an index by scheduled time covers
    // only the others (`LATE`). The indices come before the rows: one that is made afterwards is sorted, in a
    // temporary file for which a container may lack a folder. One run cannot have two rows; if it has, the first stays.
    "
    ALTER TABLE runs RENAME TO runs_of_before;
    DROP INDEX runs_job;
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        job TEXT NOT NULL, item INTEGER NOT NULL, token INTEGER NOT NULL,
        fire INTEGER NOT NULL, source TEXT NOT NULL,
        instance TEXT NOT NULL, worker TEXT NOT NULL, trigger_id TEXT,
        state TEXT NOT NULL, outcome TEXT, requeued INTEGER NOT NULL,
        since INTEGER NOT NULL, started INTEGER, ended INTEGER,
        error TEXT NOT NULL, output TEXT NOT NULL,
        processed INTEGER NOT NULL, failed INTEGER NOT NULL, attempt INTEGER NOT NULL) STRICT;
    DROP INDEX runs_since;
    DROP INDEX runs_instance;
    DROP INDEX runs_job_odd;
    DROP INDEX runs_odd;
    DROP INDEX runs_open;
    DROP INDEX runs_misfire;
    CREATE UNIQUE INDEX runs_job ON runs (job, since, item, token);
    CREATE INDEX runs_since ON runs (since);
    CREATE INDEX runs_instance ON runs (instance, since);
    CREATE INDEX runs_late ON runs (job, item, fire) WHERE since - fire NOT BETWEEN 0 AND 60000;
    CREATE INDEX runs_job_odd ON runs (job, state, since) WHERE state <> 'TASK_FINISHED';
    CREATE INDEX runs_odd ON runs (state, since) WHERE state <> 'TASK_FINISHED';
    CREATE INDEX runs_open ON runs (job, item) WHERE outcome IS NULL;
    CREATE INDEX runs_misfire ON runs (job, item, fire) WHERE source = 'MISFIRE';
    INSERT OR IGNORE INTO runs SELECT * FROM runs_of_before ORDER BY id;
    DROP TABLE runs_of_before;
",
];
