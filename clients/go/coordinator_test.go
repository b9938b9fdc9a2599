package rosterd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/scripted"
)

// program starts the conformance worker for a job, and waits until it is registered.
func (r *real) program(job string) *program {
	r.t.Helper()
	started := start(r.t, r.address, "CONFORMANCE_JOBS="+job)
	scripted.Until(r.t, "the worker is registered", func() bool { return strings.Contains(started.errors.String(), " items, ") })
	return started
}

func registered(w *working) {
	w.t.Helper()
	scripted.Until(w.t, "the worker is registered", func() bool { return strings.Contains(w.log.String(), "job hello: ") })
}

func TestAJobThatComesWithTheWorkerIsMadeAndItsRunsAreRecorded(t *testing.T) {
	coordinator := serve(t)
	var mutex sync.Mutex
	var seen []string
	w := work(t, coordinator.address, func(_ context.Context, run *rosterd.Run) error {
		mutex.Lock()
		seen = append(seen, fmt.Sprintf("%d/%d %s %s %s", run.Item, run.Total, run.ItemParameter, run.Offset, run.Props["colour"]))
		mutex.Unlock()
		run.Count(5, 1)
		run.SetOutput("done")
		return run.SetOffset(fmt.Appendf(nil, "o%d", run.Item))
	}, rosterd.WithConfig(rosterd.JobConfig{
		Items: 2, ItemParameters: []string{"a", "b"}, Props: map[string]string{"colour": "green"}, TimeZone: "Europe/Berlin",
	}))
	registered(w)
	coordinator.ask("jobs", "trigger", "hello")
	for item := range 2 {
		run := coordinator.ended("hello", item)
		equal(t, "run", words(*run.Outcome, run.Output, run.Processed), "succeeded done 5")
	}
	coordinator.ask("jobs", "trigger", "hello")
	scripted.Until(t, "the second fire", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(seen) == 4
	})
	slices.Sort(seen)
	equal(t, "seen", strings.Join(seen, ", "), "0/2 a  green, 0/2 a o0 green, 1/2 b  green, 1/2 b o1 green")
	w.Stop()
	equal(t, "error", w.ends(), nil)
}

func TestAConfigThatDiffersFromTheStoreIsWarnedOf(t *testing.T) {
	coordinator := serve(t)
	coordinator.apply("hello", map[string]any{"description": "the store's"}, "a")
	config := rosterd.JobConfig{Items: 1, ItemParameters: []string{"a"}, Description: "the worker's"}
	w := work(t, coordinator.address, nothing, rosterd.WithConfig(config), rosterd.WithHandlerType("conformance"))
	scripted.Until(t, "the warning", func() bool {
		return strings.Contains(w.log.String(), "the config of job hello is ignored, since the job exists: description is")
	})
}

func TestAnErrorItsRetriesAndAFatalFailureAreRecorded(t *testing.T) {
	coordinator := serve(t)
	retries := map[string]any{"retries": map[string]any{"max_attempts": 2, "backoff_ms": 10}}
	coordinator.apply("fails", map[string]any{"rosterd": retries}, "fail no luck", "fatal never")
	coordinator.program("fails")
	coordinator.ask("jobs", "trigger", "fails")
	failed, fatal := coordinator.ended("fails", 0), coordinator.ended("fails", 1)
	equal(t, "failed", words(*failed.Outcome, failed.Attempt, failed.Error), "failed 2 no luck")
	equal(t, "fatal", words(*fatal.Outcome, fatal.Attempt, fatal.Error), "failed 1 never")
}

func TestAnOperatorsCancelReachesHandlersThatWaitAndHandlersThatAreBusy(t *testing.T) {
	coordinator := serve(t)
	for job, parameter := range map[string]string{"waits": "sleep 60000", "busy": "busy 60000"} {
		coordinator.apply(job, nil, parameter)
		coordinator.program(job)
		coordinator.ask("jobs", "trigger", job)
		coordinator.running(job)
		coordinator.ask("jobs", "cancel", job, "--item", "0")
		equal(t, "outcome", *coordinator.ended(job, 0).Outcome, "cancelled")
	}
}

func TestARunThatIsStillGoingAfterItsTimeoutIsRecordedAsTimedOut(t *testing.T) {
	coordinator := serve(t)
	coordinator.apply("slow", map[string]any{"rosterd": map[string]any{"run_timeout_ms": 300}}, "sleep 60000")
	coordinator.program("slow")
	coordinator.ask("jobs", "trigger", "slow")
	equal(t, "outcome", *coordinator.ended("slow", 0).Outcome, "timed_out")
}

func TestADataflowStreamsUntilThereIsNothing(t *testing.T) {
	coordinator := serve(t)
	batches := [][]int{{1, 2}, {3}}
	fetch := func(context.Context, *rosterd.Run) ([]int, error) {
		if len(batches) == 0 {
			return nil, nil
		}
		next := batches[0]
		batches = batches[1:]
		return next, nil
	}
	process := func(context.Context, *rosterd.Run, []int) error { return nil }
	config := rosterd.WithConfig(rosterd.JobConfig{Items: 1, Kind: "dataflow", Streaming: true})
	w := work(t, coordinator.address, rosterd.Dataflow(fetch, process), config)
	registered(w)
	coordinator.ask("jobs", "trigger", "hello")
	run := coordinator.ended("hello", 0)
	equal(t, "run", words(*run.Outcome, run.Processed), "succeeded 3")
}

func TestCallbacksSurroundAFireThatHasThemGuaranteed(t *testing.T) {
	coordinator := serve(t)
	told := make(chan string, 64)
	config := rosterd.WithConfig(rosterd.JobConfig{
		Items: 2, Cron: "* * * * * ?",
		Guarantee: &rosterd.Guarantee{Started: true, Completed: true, Timeout: 10 * time.Second},
	})
	work(t, coordinator.address,
		func(_ context.Context, run *rosterd.Run) error { told <- words("item", run.Item); return nil }, config,
		rosterd.WithOnAllStarted(func(_ context.Context, fire rosterd.Fire) error { told <- "started " + fire.Job; return nil }),
		rosterd.WithOnAllCompleted(func(_ context.Context, fire rosterd.Fire) error { told <- "completed " + fire.Job; return nil }))
	var fire []string
	for len(fire) < 4 {
		select {
		case what := <-told:
			fire = append(fire, what)
		case <-time.After(scripted.Patience):
			t.Fatalf("only %v", fire)
		}
	}
	slices.Sort(fire[1:3])
	equal(t, "the fire", strings.Join(fire, ", "), "started hello, item 0, item 1, completed hello")
}

func TestARunOutlivesACoordinatorThatIsKilledAndStartedAgain(t *testing.T) {
	coordinator := serve(t)
	coordinator.apply("outlives", nil, "sleep 4000;output done")
	worker := coordinator.program("outlives")
	coordinator.ask("jobs", "trigger", "outlives")
	coordinator.running("outlives")
	coordinator.kill()
	scripted.Until(t, "the worker has noticed", func() bool { return strings.Contains(worker.errors.String(), "disconnected from") })
	coordinator.start()
	run := coordinator.ended("outlives", 0)
	equal(t, "run", *run.Outcome+" "+run.Output, "succeeded done")
	equal(t, "runs", len(coordinator.runs("outlives")), 1)
	if strings.Contains(worker.errors.String(), "marked dead") {
		t.Error(worker.errors)
	}
}

func TestSIGTERMLetsARunEndAndTheWorkerIsGoneWithoutATraceOfFailure(t *testing.T) {
	coordinator := serve(t)
	coordinator.apply("drained", map[string]any{"failover": true}, "sleep 1000;output done")
	worker := coordinator.program("drained")
	coordinator.ask("jobs", "trigger", "drained")
	coordinator.running("drained")
	worker.signal(t, syscall.SIGTERM)
	equal(t, "exit code", worker.ends(t), 0)
	run := coordinator.ended("drained", 0)
	equal(t, "run", *run.Outcome+" "+run.Output, "succeeded done")
	equal(t, "runs", len(coordinator.runs("drained")), 1)
}

func TestAnItemWhoseWorkerWasKilledRunsAgainElsewhereWithAHigherToken(t *testing.T) {
	coordinator := serve(t)
	more := map[string]any{"failover": true, "rosterd": map[string]any{"disconnect_grace_ms": 1000}}
	coordinator.apply("failover", more, "sleep 60000")
	both := []*program{coordinator.program("failover"), coordinator.program("failover")}
	coordinator.ask("jobs", "trigger", "failover")
	coordinator.running("failover")
	first := coordinator.at("failover", 0)
	for _, one := range both {
		if strings.Contains(one.errors.String(), first) {
			one.signal(t, syscall.SIGKILL)
		}
	}
	scripted.Until(t, "it runs elsewhere", func() bool {
		now := coordinator.at("failover", 0)
		return now != "" && now != first
	})
	scripted.Until(t, "both runs are recorded", func() bool { return len(coordinator.runs("failover")) == 2 })
	runs := coordinator.runs("failover")
	equal(t, "runs", runs[0].Source+" "+*runs[1].Outcome, "FAILOVER crashed")
	if runs[0].Token <= runs[1].Token {
		t.Errorf("tokens %d, %d", runs[1].Token, runs[0].Token)
	}
}

func TestABusyHandlerKeepsItsLeaseAtTheRealCoordinator(t *testing.T) {
	coordinator := serve(t)
	more := map[string]any{"failover": true, "rosterd": map[string]any{"disconnect_grace_ms": 1500}}
	coordinator.apply("busy", more, "busy 5000;output done")
	coordinator.program("busy")
	coordinator.ask("jobs", "trigger", "busy")
	run := coordinator.ended("busy", 0)
	equal(t, "run", *run.Outcome+" "+run.Output, "succeeded done")
	equal(t, "runs", len(coordinator.runs("busy")), 1)
}

func TestAHandlerMayEndItsRunAsCancelledByItsOwnChoice(t *testing.T) {
	coordinator := serve(t)
	handler := func(context.Context, *rosterd.Run) error { return fmt.Errorf("not today: %w", rosterd.ErrCancelled) }
	w := work(t, coordinator.address, handler, rosterd.WithConfig(rosterd.JobConfig{Items: 1}))
	registered(w)
	coordinator.ask("jobs", "trigger", "hello")
	run := coordinator.ended("hello", 0)
	equal(t, "outcome", *run.Outcome, "cancelled")
	contains(t, run.Error, "not today")
}

func TestAWorkerOfAnotherNamespaceIsRejectedWithTheReason(t *testing.T) {
	coordinator := serve(t)
	w := work(t, coordinator.address, nothing, rosterd.WithNamespace("elsewhere"))
	var rejected *rosterd.RejectedError
	if err := w.ends(); !errors.As(err, &rejected) {
		t.Errorf("the error is %v", err)
	}
}

func TestAJobThatIsNotThereIsRefusedWithItsCode(t *testing.T) {
	coordinator := serve(t)
	w := work(t, coordinator.address, nothing)
	var refused *rosterd.RefusedError
	if err := w.ends(); !errors.As(err, &refused) || refused.Code != "JOB_UNKNOWN" {
		t.Errorf("the error is %v", err)
	}
}
