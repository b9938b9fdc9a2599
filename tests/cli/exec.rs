//! Programs as workers, against a scripted coordinator.
//!
//! Where a program was killed, its worker kills whatever else has its instance, job, item and token in its environment.
//! Scripted coordinators all name the same instance, and tests run side by side, so each test that has a program killed has a
//! token of its own.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_response::Frame as To;
use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{Ran, command};
use crate::coordinator::{Coordinator, assignment, props, run, trigger};
use crate::guard::{alive, escapes, family, pids, stopped, until};
use crate::pulse::Pulse;

const LEASE: Duration = Duration::from_secs(20);

/// Kills the leftovers of a failed test.
struct Worker(Option<Child>);

impl Worker {
    fn start(coordinator: &Coordinator, args: &[&str], script: &str) -> Self {
        Self::run(command(), coordinator, args, script)
    }

    fn run(mut command: Command, coordinator: &Coordinator, args: &[&str], script: &str) -> Self {
        command.args(["exec", "--server", &coordinator.url, "--job", "words"]).args(args);
        command.args(["--", "sh", "-c", script]).env("ROSTERD_CREDENTIAL", "s3cret");
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.0.as_ref().unwrap()), signal).unwrap();
    }

    /// Asks it to leave and waits until it has.
    fn leave(mut self) -> Ran {
        self.signal(Signal::TERM);
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn outcome(completed: &v1::RunCompleted) -> v1::RunOutcome {
    completed.outcome()
}

#[test]
fn a_program_is_told_its_run_and_its_exit_code_is_the_outcome() {
    let coordinator = Coordinator::start(LEASE);
    let script =
        "env | grep ^ROSTERD_ | grep -v SERVER | sort; [ $ROSTERD_ITEM = 0 ] || { echo sorry >&2; exit 3; }";
    let worker = Worker::start(&coordinator, &[], script);
    assert_eq!(coordinator.registered().config, "");
    coordinator.tells(props());
    coordinator.tells(trigger(0, 17));
    let completed = coordinator.completed();
    let told = "ROSTERD_ATTEMPT=1\nROSTERD_FIRE_TIME=2026-11-21T00:00:00Z\nROSTERD_INSTANCE=here@-@w-1\n\
                ROSTERD_ITEM=0\nROSTERD_ITEM_PARAMETER=Beijing\nROSTERD_JOB=words\n\
                ROSTERD_JOB_PARAMETER=all of it\n\
                ROSTERD_PROPS={\"size\":\"7\",\"url\":\"a=b \\\"c\\\"\"}\nROSTERD_SOURCE=NORMAL_TRIGGER\n\
                ROSTERD_TASK_ID=words@-@0@-@READY@-@here@-@w-1\nROSTERD_TOKEN=17\nROSTERD_TOTAL=3\n";
    assert_eq!((outcome(&completed), completed.output.as_str()), (v1::RunOutcome::Succeeded, told));
    coordinator.tells(trigger(1, 18));
    let completed = coordinator.completed();
    assert_eq!(outcome(&completed), v1::RunOutcome::Failed);
    assert!(completed.error.starts_with("exit status 3\n"), "{}", completed.error);
    // Both of its outputs; the order in which the two pipes are read is not defined.
    for said in ["ROSTERD_ATTEMPT=1\n", "ROSTERD_TOKEN=18\n", "sorry"] {
        let (error, output) = (&completed.error, &completed.output);
        assert!(error.contains(said) && output.contains(said), "{said:?}: {completed:?}");
    }
    let ran = worker.leave();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), "sorry\n"), "{}", ran.out);
    assert!(ran.out.starts_with(told), "{}", ran.out);
}

#[test]
fn flags_register_the_job() {
    let coordinator = Coordinator::start(LEASE);
    let args =
        ["--cron", "0/5 * * * * ?", "--items", "2", "--parameters", "0=A,1=B", "--failover", "--overwrite"];
    let worker = Worker::start(&coordinator, &args, "true");
    let register = coordinator.registered();
    let file: serde_json::Value = serde_json::from_str(&register.config).unwrap();
    let wanted = serde_json::json!({
        "jobName": "words", "cron": "0/5 * * * * ?", "shardingTotalCount": 2, "shardingItemParameters": "0=A,1=B",
        "failover": true, "overwrite": true, "rosterd": { "kind": "command" },
    });
    assert_eq!((file, register.overwrite, register.handler_type.as_str()), (wanted, true, "words"));
    assert_eq!(worker.leave().code, Some(0));
}

#[test]
fn flags_that_have_no_effect_are_said() {
    let coordinator = Coordinator::start(LEASE);
    let worker = Worker::start(&coordinator, &["--items", "2"], "true");
    coordinator.registered();
    let difference = v1::ConfigDifference {
        field: "shardingTotalCount".into(),
        stored: Some("3".into()),
        offered: Some("2".into()),
    };
    let registered =
        v1::Registered { job: "words".into(), config_differences: vec![difference], ..Default::default() };
    coordinator.tells(To::Registered(registered));
    coordinator.tells(trigger(0, 700));
    coordinator.completed();
    let said = worker.leave().err;
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in ["shardingTotalCount is 3 in the store and 2 here", "overwrite", "`rosterd jobs apply`"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn output_is_capped_in_the_report_and_whole_on_stdout() {
    let coordinator = Coordinator::start(LEASE);
    let worker = Worker::start(&coordinator, &[], "yes 0123456789 | head -n 50000; echo end");
    coordinator.registered();
    coordinator.tells(trigger(0, 1));
    // Read while it runs: a full pipe makes the program wait.
    let completed = {
        let mut worker = worker;
        let mut out = worker.0.as_mut().unwrap().stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut out, &mut all).unwrap();
            all
        });
        let completed = coordinator.completed();
        assert_eq!(worker.leave().code, Some(0));
        assert_eq!(reader.join().unwrap().len(), 50_000 * 11 + 4);
        completed
    };
    let cut = format!(
        "[{} bytes before this were cut]
",
        550_004 - (64 << 10) + 48
    );
    assert!(completed.output.starts_with(&cut), "{}", &completed.output[..80]);
    assert!(
        completed.output.len() <= 64 << 10
            && completed.output.ends_with(
                "0123456789
end
"
            )
    );
}

#[test]
fn lines_can_be_marked_with_their_item() {
    let coordinator = Coordinator::start(LEASE);
    let worker = Worker::start(&coordinator, &["--prefix", "always"], "echo one; printf two");
    coordinator.registered();
    coordinator.tells(trigger(2, 1));
    assert_eq!(coordinator.completed().output, "one\ntwo");
    assert_eq!(worker.leave().ok(), "[words/2] one\n[words/2] two\n");
}

#[test]
fn a_cancelled_program_is_asked_and_then_killed() {
    let coordinator = Coordinator::start(LEASE);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!(
        "trap 'echo bye; [ $ROSTERD_ITEM = 0 ] && exit 0' TERM; {}; while :; do sleep 0.01; done",
        family(&file)
    );
    let _worker = Worker::start(&coordinator, &["--kill-after", "300ms", "--slots", "2"], &script);
    coordinator.registered();
    for (item, token) in [(0, 7), (1, 8)] {
        coordinator.tells(trigger(item, token));
        let family = pids(&file, 2 * (item as usize + 1));
        let cancel = v1::Cancel {
            run: Some(run(item, token)),
            reason: v1::CancelReason::Operator.into(),
            message: String::new(),
        };
        let asked = Instant::now();
        coordinator.tells(To::Cancel(cancel));
        let completed = coordinator.completed();
        assert_eq!(outcome(&completed), v1::RunOutcome::Cancelled, "{completed:?}");
        assert!(completed.output.contains("bye"), "{completed:?}");
        // The one that ignores signals lives as long as it may, and no longer.
        assert!(item == 0 || asked.elapsed() >= Duration::from_millis(300));
        until("the group is gone", || !family.iter().any(|pid| alive(pid)));
    }
}

#[test]
fn nothing_outlives_the_lease() {
    let lease = Duration::from_secs(6);
    let coordinator = Coordinator::start(lease);
    let dir = tempfile::tempdir().unwrap();
    let pulse = Pulse::beside(dir.path());
    let file = dir.path().join("pids");
    let script = format!("trap '' TERM; {}; while :; do sleep 0.01; done", family(&file));
    // Neither the grace period nor the guard's silence ends it.
    let _worker = Worker::start(&coordinator, &["--grace", "1h", "--guard-silence", "1h"], &script);
    coordinator.registered();
    coordinator.tells(trigger(0, 800));
    let family = pids(&file, 2);
    let silent = SystemTime::now();
    coordinator.falls_silent();
    until("the group is gone", || !family.iter().any(|pid| alive(pid)));
    let lived = pulse.between(silent, SystemTime::now());
    // A heartbeat may have been acknowledged just before.
    assert!(lived < lease + Duration::from_millis(200), "{lived:?}");
}

#[test]
fn a_program_dies_with_exec_even_when_that_is_killed_or_stopped() {
    for signal in [Signal::KILL, Signal::STOP] {
        let coordinator = Coordinator::start(LEASE);
        let dir = tempfile::tempdir().unwrap();
        let pulse = Pulse::beside(dir.path());
        let file = dir.path().join("pids");
        let worker = Worker::start(&coordinator, &[], &family(&file));
        coordinator.registered();
        coordinator.tells(trigger(0, 900));
        let family = pids(&file, 2);
        let asked = SystemTime::now();
        worker.signal(signal);
        until("the group is gone", || !family.iter().any(|pid| alive(pid)));
        let lived = pulse.between(asked, SystemTime::now());
        assert!(lived < Duration::from_secs(5), "{signal:?} took {lived:?}");
    }
}

/// If the guard is killed, the program dies with it; `exec` kills the processes that the program has started.
#[test]
fn what_a_program_has_started_dies_with_a_killed_guard() {
    let coordinator = Coordinator::start(LEASE);
    let dir = tempfile::tempdir().unwrap();
    let (file, parent) = (dir.path().join("pids"), dir.path().join("guard"));
    let script = format!("{}; echo $PPID > {}; {}", escapes(&file), parent.display(), family(&file));
    let _worker = Worker::start(&coordinator, &[], &script);
    coordinator.registered();
    coordinator.tells(trigger(0, 1000));
    let family = pids(&file, 3);
    let guard = pids(&parent, 1).remove(0).parse().ok().and_then(Pid::from_raw).unwrap();
    assert!(family.iter().all(|pid| alive(pid)));
    kill_process(guard, Signal::KILL).unwrap();
    assert_eq!(outcome(&coordinator.completed()), v1::RunOutcome::Failed);
    assert!(!family.iter().any(|pid| alive(pid)), "the run is over, and what it started is not");
}

/// A cgroup of one test. A worker that starts ends what killed ones have left in its own group, so each test that leaves
/// something needs one of its own.
struct Group(PathBuf);

impl Group {
    /// `None`: a process may make none here, and the test reports that it was skipped.
    fn make(test: &str) -> Option<Self> {
        use std::io::Write as _;
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let own =
            own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/none").trim_start_matches('/');
        let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let made = mounts.iter().find_map(|mount| {
            let folder = Path::new(mount).join(own).join(format!("test-{test}-{}", std::process::id()));
            std::fs::create_dir(&folder).ok()?;
            let kills = folder.join("cgroup.kill").exists();
            let group = Self(folder);
            kills.then_some(group)
        });
        if made.is_none() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            writeln!(std::io::stdout().lock(), "\nNOT RUN: {test}: no cgroup v2 may be made here").unwrap();
        }
        made
    }

    /// The program, in this group.
    fn command(&self) -> Command {
        let program = command();
        let mut inside = Command::new("sh");
        inside
            .args(["-c", "echo 0 > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.0)
            .arg(program.get_program());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        use std::io::Write as _;
        let kill = std::fs::OpenOptions::new().write(true).open(self.0.join("cgroup.kill"));
        let _ = kill.and_then(|mut kill| kill.write_all(b"1"));
        let removed = || {
            for run in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
                let _ = std::fs::remove_dir(run.path());
            }
            std::fs::remove_dir(&self.0).is_ok()
        };
        // What was killed is in its group until it has ended.
        let end = Instant::now() + LEASE;
        while !removed() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A script that leaves session, parent and environment, and writes its pid into a file.
fn hides(file: &std::path::Path) -> String {
    format!("env -i setsid sh -c 'echo $$ >> {}; exec sleep 1000' &", file.display())
}

#[test]
fn what_hides_from_a_killed_guard_ends_with_the_group_of_its_run() {
    let Some(group) = Group::make("hides") else { return };
    let coordinator = Coordinator::start(LEASE);
    let dir = tempfile::tempdir().unwrap();
    let (file, parent) = (dir.path().join("pids"), dir.path().join("guard"));
    let script = format!("{} echo $PPID > {}; {}", hides(&file), parent.display(), family(&file));
    let _worker = Worker::run(group.command(), &coordinator, &[], &script);
    coordinator.registered();
    coordinator.tells(trigger(0, 1100));
    let family = pids(&file, 3);
    let guard = pids(&parent, 1).remove(0).parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(guard, Signal::KILL).unwrap();
    assert_eq!(outcome(&coordinator.completed()), v1::RunOutcome::Failed);
    assert!(!family.iter().any(|pid| alive(pid)), "the run is over, and what it started is not");
}

#[test]
fn what_a_killed_worker_and_its_killed_guard_leave_ends_when_the_next_worker_starts() {
    let Some(group) = Group::make("leaves") else { return };
    let coordinator = Coordinator::start(LEASE);
    let dir = tempfile::tempdir().unwrap();
    let (file, parent) = (dir.path().join("pids"), dir.path().join("guard"));
    let script = format!("{} echo $PPID > {}; {}", hides(&file), parent.display(), family(&file));
    let worker = Worker::run(group.command(), &coordinator, &[], &script);
    coordinator.registered();
    coordinator.tells(trigger(0, 1200));
    let family = pids(&file, 3);
    let guard = pids(&parent, 1).remove(0).parse().ok().and_then(Pid::from_raw).unwrap();
    // The guard cannot kill while it is stopped.
    kill_process(guard, Signal::STOP).unwrap();
    until("the guard stands still", || stopped(&guard.as_raw_nonzero().to_string()));
    drop(worker);
    kill_process(guard, Signal::KILL).unwrap();
    assert!(family.iter().any(|pid| alive(pid)), "something is left");
    let next = Coordinator::start(LEASE);
    let _worker = Worker::run(group.command(), &next, &[], "true");
    next.registered();
    until("nothing is left", || !family.iter().any(|pid| alive(pid)));
}

/// The program runs as the same user; root could read everything.
#[test]
fn a_program_cannot_read_the_credential_of_its_worker() {
    let coordinator = Coordinator::start(LEASE);
    let script = "exec_pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status); \
                  for pid in $exec_pid $PPID $$; do cat /proc/$pid/environ /proc/$pid/cmdline | tr '\\0' '\\n'; done; \
                  tr '\\0' '\\n' < /proc/$exec_pid/cmdline; ls -l /proc/$$/fd; true";
    let mut command = command();
    if rustix::process::geteuid().is_root() {
        command.uid(65_534);
    }
    let worker = Worker::run(command, &coordinator, &[], script);
    coordinator.registered();
    coordinator.tells(trigger(0, 1300));
    let output = coordinator.completed().output;
    assert!(output.contains("ROSTERD_TOKEN=1300") && output.contains("--server"), "it looked: {output}");
    assert!(!output.contains("s3cret"), "{output}");
    assert!(output.contains("Permission denied"), "{output}");
    worker.leave();
}

#[test]
fn a_worker_that_leaves_lets_its_program_end() {
    let coordinator = Coordinator::start(LEASE);
    let worker = Worker::start(&coordinator, &[], "echo begun; sleep 1; echo done");
    coordinator.registered();
    coordinator.tells(trigger(0, 1400));
    coordinator.hears(|frame| matches!(frame, v1::session_request::Frame::RunStarted(_)).then_some(()));
    let ran = worker.leave();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "begun\ndone\n"), "{}", ran.err);
    assert_eq!(outcome(&coordinator.completed()), v1::RunOutcome::Succeeded);
}

/// `timeout` and supervisors signal the process, and then its group.
#[test]
fn two_signals_in_one_instant_are_one_request_to_leave() {
    let coordinator = Coordinator::start(LEASE);
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done; echo done", gate.display());
    let mut worker = Worker::start(&coordinator, &[], &script);
    coordinator.registered();
    coordinator.tells(trigger(0, 1500));
    coordinator.hears(|frame| matches!(frame, v1::session_request::Frame::RunStarted(_)).then_some(()));
    worker.signal(Signal::TERM);
    worker.signal(Signal::INT);
    coordinator.hears(|frame| matches!(frame, v1::session_request::Frame::DrainRequest(_)).then_some(()));
    std::fs::write(&gate, "").unwrap();
    let ran: Ran = worker.0.take().unwrap().wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{}", ran.err);
    assert_eq!(
        ran.err.matches("signal received: leaving once 1 run in flight (words[0]#1500) ended").count(),
        1
    );
    assert!(ran.err.contains("a second signal exits immediately"), "{}", ran.err);
    assert_eq!(outcome(&coordinator.completed()), v1::RunOutcome::Succeeded);
}

#[test]
fn a_second_signal_exits_at_once_and_says_so() {
    let coordinator = Coordinator::start(LEASE);
    let mut worker = Worker::start(&coordinator, &[], "sleep 1000");
    coordinator.registered();
    coordinator.tells(trigger(0, 1600));
    coordinator.hears(|frame| matches!(frame, v1::session_request::Frame::RunStarted(_)).then_some(()));
    until("the worker has exited", || {
        worker.signal(Signal::TERM);
        worker.0.as_mut().unwrap().try_wait().unwrap().is_some()
    });
    let ran: Ran = worker.0.take().unwrap().wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let said = "second signal received: exiting immediately; runs in flight are recorded as crashed";
    assert_eq!(ran.err.matches(said).count(), 1, "{}", ran.err);
}

#[test]
fn without_a_program_the_job_chooses_it_only_where_that_is_allowed() {
    let ran: Ran = command().args(["exec", "--job", "words"]).output().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("no program: give one after --, or add --allow-job-command"), "{}", ran.err);
    let both = ["exec", "--job", "words", "--allow-job-command", "--", "true"];
    assert_eq!(command().args(both).output().unwrap().status.code(), Some(2));
}

#[test]
fn the_jobs_own_command_line_gets_the_sharding_context_as_its_last_argument() {
    let coordinator = Coordinator::start(LEASE);
    let mut command = command();
    command.args(["exec", "--server", &coordinator.url, "--job", "words", "--allow-job-command"]);
    let worker = Worker(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()));
    assert_eq!(coordinator.registered().handler_type, "");
    coordinator.tells(assignment(&[]));
    coordinator.tells(trigger(0, 16));
    let completed = coordinator.completed();
    assert_eq!(outcome(&completed), v1::RunOutcome::Failed);
    assert!(completed.error.starts_with("job words: it has no command line"), "{completed:?}");
    let line = r#"sh -c 'echo "$ROSTERD_TOKEN $1"; echo "$2"' sh "two words""#;
    coordinator.tells(assignment(&[("script.command.line", line)]));
    coordinator.tells(trigger(0, 17));
    let completed = coordinator.completed();
    let context = r#"{"jobName":"words","taskId":"words@-@0@-@READY@-@here@-@w-1","shardingTotalCount":3,"jobParameter":"all of it","shardingItem":0,"shardingParameter":"Beijing"}"#;
    assert_eq!(completed.output, format!("17 two words\n{context}\n"), "{completed:?}");
    worker.leave();
}

#[test]
fn a_program_that_is_not_there_is_refused_before_anything_is_registered() {
    let ran: Ran =
        command().args(["exec", "--job", "words", "--", "no-such-program"]).output().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("no-such-program: no such program"), "{}", ran.err);
}
