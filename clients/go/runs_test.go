package rosterd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/scripted"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

func TestARunFromTriggerToReport(t *testing.T) {
	coordinator := scripted.Start(t)
	seen := make(chan *rosterd.Run, 1)
	lines := new(text)
	logger := slog.New(rosterd.NewLogHandler(slog.NewTextHandler(lines, nil)))
	w := work(t, coordinator.Address(), func(ctx context.Context, run *rosterd.Run) error {
		type key struct{}
		if found, is := rosterd.RunFromContext(context.WithValue(ctx, key{}, "value")); !is || found != run {
			return errors.New("the context does not know its run")
		}
		logger.InfoContext(ctx, "by the handler")
		run.Log.Info("by the run")
		run.Count(3, 1)
		run.Progress(50, "half")
		run.SetOutput("done")
		seen <- run
		return run.SetOffset([]byte("next"))
	}, rosterd.WithCredential("s3cret"), rosterd.WithLabels(map[string]string{"zone": "a"}))
	session := coordinator.Accept()
	hello := session.Greet(scripted.Welcome("w1"), "hello")
	equal(t, "authorization", session.Metadata.Get("authorization")[0], "Bearer s3cret")
	equal(t, "Hello", words(hello.GetSlots(), hello.GetAddress(), hello.GetLabels()), "4 10.0.0.1 map[zone:a]")
	session.Send(scripted.Assignment(map[string]string{"colour": "green"}))
	session.Send(scripted.Trigger(7, 2, func(trigger *pb.Trigger) {
		trigger.Offset = []byte("here")
		trigger.Timeout = durationpb.New(time.Minute)
		trigger.TraceContext = map[string]string{"traceparent": "00-1-2-01"}
	}))
	equal(t, "token", scripted.Expect(session, (*pb.SessionRequest).GetRunStarted).GetRun().GetToken(), 7)
	report := session.Report()
	equal(t, "report", words(outcomeOf(report), report.GetOutput(), report.GetProcessed(), report.GetFailed(), string(report.GetOffset())),
		"SUCCEEDED done 3 1 next")
	run := <-seen
	equal(t, "run", words(run.Job, run.Item, run.Token, run.Total, run.Attempt, run.ItemParameter, run.JobParameter),
		"hello 2 7 3 1 the item's all")
	equal(t, "run", words(string(run.Offset), run.Source, run.InstanceID, run.Props["colour"], run.TaskID),
		"here NORMAL_TRIGGER 10.0.0.1@-@w1 green hello@-@0@-@READY@-@10.0.0.1@-@w1")
	equal(t, "fire", run.FireTime, scripted.Fire)
	equal(t, "trace", run.TraceContext["traceparent"], "00-1-2-01")
	if !run.Deadline.After(time.Now()) {
		t.Errorf("the deadline is %v", run.Deadline)
	}
	contains(t, lines.String(), `msg="by the handler" job=hello item=2 token=7 instance=10.0.0.1@-@w1`)
	contains(t, w.log.String(), `msg="by the run" job=hello item=2 token=7 instance=10.0.0.1@-@w1`)
	w.leave(session)
	noneLeft(t)
}

func TestWhatAHandlerReturnsOrPanicsWithIsAFailureAndTheWorkerLivesOn(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), func(_ context.Context, run *rosterd.Run) error {
		switch run.Token {
		case 1:
			return fmt.Errorf("no such file: %w", errors.New("disk"))
		case 2:
			panic(errors.New("a defect"))
		case 3:
			return fmt.Errorf("not today: %w", rosterd.ErrCancelled)
		case 4:
			runtime.Goexit()
		}
		return nil
	})
	session := greeted(t, coordinator)
	var reports []*pb.RunCompleted
	for token := range uint64(5) {
		session.Send(scripted.Trigger(token+1, 0))
		reports = append(reports, session.Report())
	}
	var outcomes []string
	for _, report := range reports {
		outcomes = append(outcomes, outcomeOf(report))
	}
	equal(t, "outcomes", strings.Join(outcomes, " "), "FAILED FAILED CANCELLED FAILED SUCCEEDED")
	equal(t, "error", reports[0].GetError(), "no such file: disk")
	contains(t, reports[1].GetError(), "panic: a defect\ngoroutine ")
	contains(t, reports[1].GetError(), "runs_test.go:")
	contains(t, reports[3].GetError(), "runtime.Goexit")
	w.leave(session)
}

func TestRetriesAreAttemptsOfOneRunAndAFatalFailureIsNotTriedAgain(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), func(_ context.Context, run *rosterd.Run) error {
		switch {
		case run.Token == 8:
			return fmt.Errorf("wrapped: %w", rosterd.Fatal(errors.New("never")))
		case run.Attempt < 3:
			return errors.New("try again")
		default:
			run.SetOutput(words(run.Attempt))
			return nil
		}
	})
	session := greeted(t, coordinator)
	thrice := func(trigger *pb.Trigger) {
		trigger.MaxAttempts = 3
		trigger.RetryBackoff = durationpb.New(20 * time.Millisecond)
	}
	session.Send(scripted.Trigger(7, 0, thrice))
	report := session.Report()
	equal(t, "first", words(outcomeOf(report), report.GetAttempt(), report.GetOutput()), "SUCCEEDED 3 3")
	session.Send(scripted.Trigger(8, 0, thrice))
	report = session.Report()
	equal(t, "second", words(outcomeOf(report), report.GetAttempt(), report.GetError()), "FAILED 1 wrapped: never")
	w.leave(session)
}

func TestACancelReachesTheHandler(t *testing.T) {
	ways := map[string]rosterd.Handler{
		"that waits for its context": untilStopped,
		"that looks in a loop": func(ctx context.Context, _ *rosterd.Run) error {
			for ctx.Err() == nil {
			}
			return ctx.Err()
		},
		"behind a derived context": func(ctx context.Context, _ *rosterd.Run) error {
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-derived.Done()
			return derived.Err()
		},
	}
	for name, handler := range ways {
		t.Run(name, func(t *testing.T) {
			coordinator := scripted.Start(t)
			causes := make(chan error, 1)
			w := work(t, coordinator.Address(), func(ctx context.Context, run *rosterd.Run) error {
				err := handler(ctx, run)
				causes <- context.Cause(ctx)
				return err
			})
			session := greeted(t, coordinator)
			session.Send(scripted.Trigger(7, 0))
			scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
			session.Send(scripted.Cancel(7, 0, pb.CancelReason_CANCEL_REASON_OPERATOR))
			report := session.Report()
			equal(t, "report", outcomeOf(report)+": "+report.GetError(), "CANCELLED: an operator asked for it")
			cause := <-causes
			if !errors.Is(cause, rosterd.ErrCancelled) || !errors.Is(cause, rosterd.ErrStopped) || errors.Is(cause, rosterd.ErrFenced) {
				t.Errorf("the cause is %v", cause)
			}
			w.leave(session)
		})
	}
}

func TestATimeoutStopsTheRun(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), func(ctx context.Context, _ *rosterd.Run) error {
		if _, known := ctx.Deadline(); !known {
			return errors.New("no deadline")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0, func(trigger *pb.Trigger) { trigger.Timeout = durationpb.New(100 * time.Millisecond) }))
	equal(t, "outcome", outcomeOf(session.Report()), "TIMED_OUT")
	w.leave(session)
}

func TestADataflowGoesOnUntilFetchIsEmptyWhereItStreams(t *testing.T) {
	for streaming, expected := range map[bool]uint64{true: 5, false: 2} {
		t.Run(words(streaming), func(t *testing.T) {
			coordinator := scripted.Start(t)
			batches := [][]int{{1, 2}, {3, 4}, {5}}
			fetch := func(context.Context, *rosterd.Run) ([]int, error) {
				if len(batches) == 0 {
					return nil, nil
				}
				next := batches[0]
				batches = batches[1:]
				return next, nil
			}
			process := func(context.Context, *rosterd.Run, []int) error { return nil }
			w := work(t, coordinator.Address(), rosterd.Dataflow(fetch, process))
			session := greeted(t, coordinator)
			session.Send(scripted.Trigger(7, 0, func(trigger *pb.Trigger) { trigger.Streaming = streaming }))
			equal(t, "processed", session.Report().GetProcessed(), expected)
			w.leave(session)
		})
	}
}

func TestAStreamingDataflowEndsInGoodOrderWhenTheWorkerLeaves(t *testing.T) {
	coordinator := scripted.Start(t)
	fetch := func(context.Context, *rosterd.Run) ([]int, error) { return []int{1}, nil }
	process := func(ctx context.Context, _ *rosterd.Run, _ []int) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
		return nil
	}
	w := work(t, coordinator.Address(), rosterd.Dataflow(fetch, process))
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0, func(trigger *pb.Trigger) { trigger.Streaming = true }))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	w.Stop()
	scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
	session.Send(scripted.Draining())
	equal(t, "outcome", outcomeOf(session.Report()), "SUCCEEDED")
	scripted.Expect(session, (*pb.SessionRequest).GetGoodbye)
	session.Send(scripted.GoodbyeAck())
	equal(t, "error", w.ends(), nil)
}

func TestCallbacksOfAFire(t *testing.T) {
	coordinator := scripted.Start(t)
	fires := make(chan rosterd.Fire, 1)
	w := work(t, coordinator.Address(), nothing,
		rosterd.WithOnAllStarted(func(_ context.Context, fire rosterd.Fire) error { fires <- fire; return nil }),
		rosterd.WithOnAllCompleted(func(ctx context.Context, _ rosterd.Fire) error {
			if _, known := ctx.Deadline(); !known {
				return errors.New("no deadline")
			}
			panic("no mail today")
		}))
	session := greeted(t, coordinator)
	session.Send(scripted.Callback("c1", pb.CallbackKind_CALLBACK_KIND_ALL_STARTED, time.Minute))
	equal(t, "error", scripted.Expect(session, (*pb.SessionRequest).GetCallbackDone).GetError(), "")
	session.Send(scripted.Callback("c2", pb.CallbackKind_CALLBACK_KIND_ALL_COMPLETED, time.Minute))
	contains(t, scripted.Expect(session, (*pb.SessionRequest).GetCallbackDone).GetError(), "panic: no mail today")
	equal(t, "fire", <-fires, rosterd.Fire{Job: "hello", Time: scripted.Fire})
	w.leave(session)
}

func TestHooksAreToldAndWhatTheyPanicWithChangesNothing(t *testing.T) {
	coordinator := scripted.Start(t)
	var mutex sync.Mutex
	var told []string
	tell := func(what string) {
		mutex.Lock()
		defer mutex.Unlock()
		told = append(told, what)
	}
	was := func(what string) func() bool {
		return func() bool {
			mutex.Lock()
			defer mutex.Unlock()
			return strings.Contains(strings.Join(told, ","), what)
		}
	}
	w := work(t, coordinator.Address(), nothing, rosterd.WithHooks(rosterd.Hooks{
		Attached:     func(_, instance string) { tell("attached " + instance) },
		LeaseRenewed: func(time.Duration) { tell("renewed") },
		RunStarted:   func(*rosterd.Run) { tell("started"); panic("a defect") },
		RunEnded:     func(_ *rosterd.Run, end rosterd.RunEnd) { tell(fmt.Sprintf("ended %v %v", end.Err, end.Stopped)) },
	}), rosterd.WithMiddleware(func(next rosterd.Handler) rosterd.Handler {
		return func(ctx context.Context, run *rosterd.Run) error {
			tell("around")
			return next(ctx, run)
		}
	}))
	session := greeted(t, coordinator, scripted.Lease(5*time.Second, 50*time.Millisecond, 0))
	session.Send(scripted.Trigger(7, 0))
	equal(t, "outcome", outcomeOf(session.Report()), "SUCCEEDED")
	for _, what := range []string{"attached 10.0.0.1@-@w1", "renewed", "started,around", "ended <nil> <nil>"} {
		scripted.Until(t, what, was(what))
	}
	scripted.Until(t, "the defect is logged", func() bool {
		return strings.Contains(w.log.String(), "the hook RunStarted failed: panic: a defect")
	})
	w.leave(session)
}

func TestAHandlerThatKeepsTheProcessorBusyForLongerThanTheLeaseKeepsItsLease(t *testing.T) {
	coordinator := scripted.Start(t)
	// One processor for all goroutines.
	program := start(t, coordinator.Address(), "GOMAXPROCS=1")
	session := greeted(t, coordinator, scripted.Lease(1500*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond))
	session.Send(scripted.Trigger(7, 0, parameter("busy 4000;output done")))
	report := session.Report()
	equal(t, "report", outcomeOf(report)+" "+report.GetOutput(), "SUCCEEDED done")
	program.signal(t, syscall.SIGTERM)
	session.Farewell()
	equal(t, "exit code", program.ends(t), 0)
	if strings.Contains(program.errors.String(), "no stream") {
		t.Error(program.errors.String())
	}
}

func TestAnOffsetThatIsTooLongIsRefusedToTheHandler(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), func(_ context.Context, run *rosterd.Run) error {
		return run.SetOffset(make([]byte, 64*1024+1))
	})
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0))
	report := session.Report()
	equal(t, "report", outcomeOf(report)+" "+report.GetError(), "FAILED an offset may have 65536 bytes, not 65537")
	w.leave(session)
}

func TestARunThatIsOverSaysNothingMore(t *testing.T) {
	coordinator := scripted.Start(t)
	runs := make(chan *rosterd.Run, 1)
	contexts := make(chan context.Context, 1)
	w := work(t, coordinator.Address(), func(ctx context.Context, run *rosterd.Run) error {
		runs <- run
		contexts <- ctx
		return nil
	})
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0))
	session.Report()
	run, ctx := <-runs, <-contexts
	<-ctx.Done()
	run.Progress(50, "too late")
	equal(t, "error", run.SetOffset([]byte("too late")), nil)
	equal(t, "cause", context.Cause(ctx), context.Canceled)
	session.End(codes.OK)
	next := coordinator.Accept()
	if hello := next.Greet(scripted.Welcome("w1"), "hello"); len(hello.GetRunsInFlight()) > 0 {
		t.Errorf("in flight: %v", hello.GetRunsInFlight())
	}
	w.leave(next)
}
