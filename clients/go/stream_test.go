package rosterd_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/scripted"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

func TestAResumeNamesTheRunsAndSendsAgainWhatIsNotAcknowledgedOnOneStreamAtATime(t *testing.T) {
	coordinator := scripted.Start(t)
	finish := make(chan struct{})
	inside := make(chan struct{})
	w := work(t, coordinator.Address(), func(_ context.Context, run *rosterd.Run) error {
		if run.Item == 1 {
			close(inside)
			<-finish
		}
		return nil
	})
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0), scripted.Trigger(8, 1))
	equal(t, "outcome", outcomeOf(scripted.Expect(session, (*pb.SessionRequest).GetRunCompleted)), "SUCCEEDED")
	<-inside
	session.End(codes.Unavailable)
	next := coordinator.Accept()
	hello := next.Greet(scripted.Welcome("w1"), "hello")
	equal(t, "Hello", words(hello.GetWorkerId(), hello.GetResumeKey(), hello.GetStreamNumber(), scripted.Tokens(hello.GetRunsInFlight())),
		"w1 key of w1 2 [7 8]")
	equal(t, "token", next.Report().GetRun().GetToken(), 7)
	close(finish)
	equal(t, "token", next.Report().GetRun().GetToken(), 8)
	w.leave(next)
	equal(t, "most streams at a time", coordinator.MostOpen(), 1)
}

func TestTheNextCoordinatorTakesOverAlsoOneThatOnlyWelcomeNamed(t *testing.T) {
	coordinator, second := scripted.Start(t), scripted.Start(t)
	w := work(t, coordinator.Address(), nothing)
	greeted(t, coordinator, func(welcome *pb.Welcome) { welcome.Coordinators = []string{"http://" + second.Address()} })
	coordinator.Stop()
	session := second.Accept()
	session.Greet(scripted.Welcome("w1"), "hello")
	w.leave(session)
}

func TestACredentialGoesOnlyToHostsThatWereGiven(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), nothing, rosterd.WithCredential("s3cret"))
	session := greeted(t, coordinator, func(welcome *pb.Welcome) {
		welcome.Coordinators = []string{"http://192.0.2.1:7700", "https://192.0.2.2:7700"}
	})
	for _, address := range []string{"http://192.0.2.1:7700", "https://192.0.2.2:7700"} {
		said := "coordinator " + address + ", which a Welcome named, is passed over: its host was not given"
		scripted.Until(t, address+" is passed over", func() bool { return strings.Contains(w.log.String(), said) })
	}
	session.End(codes.OK)
	// There is no other coordinator.
	next := coordinator.Accept()
	next.Greet(scripted.Welcome("w1"), "hello")
	if strings.Contains(w.log.String(), "s3cret") {
		t.Error("the credential is in the log")
	}
	w.leave(next)
}

func TestACoordinatorThatComesUpLaterIsFound(t *testing.T) {
	coordinator := scripted.Start(t)
	address := coordinator.Address()
	coordinator.Stop()
	w := work(t, address, nothing)
	scripted.Until(t, "an attempt", func() bool { return strings.Contains(w.log.String(), "cannot connect to "+address) })
	session := scripted.StartAt(t, address).Accept()
	session.Greet(scripted.Welcome("w1"), "hello")
	w.leave(session)
}

func TestALeaseThatIsNotRenewedStopsRunsAndTheyAreReportedAborted(t *testing.T) {
	coordinator := scripted.Start(t)
	coordinator.AnswerHeartbeats(false)
	causes := make(chan error, 1)
	w := work(t, coordinator.Address(), func(ctx context.Context, _ *rosterd.Run) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	session := greeted(t, coordinator, scripted.Lease(2400*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond))
	session.Send(scripted.Trigger(7, 0))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	<-session.Closed
	next := coordinator.Accept()
	if cause := <-causes; !errors.Is(cause, rosterd.ErrLeaseEnded) {
		t.Errorf("the cause is %v", cause)
	}
	hello := next.Greet(scripted.Welcome("w1", scripted.Lease(time.Minute, time.Second, 0)), "hello")
	equal(t, "in flight", words(scripted.Tokens(hello.GetRunsInFlight())), "[7]")
	equal(t, "outcome", outcomeOf(next.Report()), "ABORTED")
	w.leave(next)
}

func TestAnotherIdentityFencesTheRunsOfTheOldOne(t *testing.T) {
	coordinator := scripted.Start(t)
	causes := make(chan error, 2)
	w := work(t, coordinator.Address(), func(ctx context.Context, _ *rosterd.Run) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	session.End(codes.OK)
	next := coordinator.Accept()
	next.Greet(scripted.Welcome("w2"), "hello")
	if cause := <-causes; !errors.Is(cause, rosterd.ErrMarkedDead) {
		t.Errorf("the cause is %v", cause)
	}
	next.ExpectHeartbeatWith()
	next.Send(scripted.Trigger(8, 0))
	next.ExpectHeartbeatWith(8)
	next.Send(scripted.Cancel(8, 0, pb.CancelReason_CANCEL_REASON_FENCED))
	equal(t, "outcome", outcomeOf(next.Report()), "ABORTED")
	w.leave(next)
}

func TestTheOnlyJobRefusedIsAnErrorWithItsCode(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), nothing)
	session := coordinator.Accept()
	scripted.Expect(session, (*pb.SessionRequest).GetHello)
	session.Send(scripted.Welcome("w1"))
	scripted.Expect(session, (*pb.SessionRequest).GetRegister)
	session.Send(scripted.Refused("hello", "JOB_UNKNOWN"))
	session.Farewell()
	var refused *rosterd.RefusedError
	if err := w.ends(); !errors.As(err, &refused) || refused.Code != "JOB_UNKNOWN" || refused.Job != "hello" {
		t.Errorf("the error is %v", err)
	}
}

func TestARejectedWorkerIsAnErrorWithItsCode(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), nothing)
	session := coordinator.Accept()
	scripted.Expect(session, (*pb.SessionRequest).GetHello)
	session.End(codes.Unauthenticated)
	var rejected *rosterd.RejectedError
	if err := w.ends(); !errors.As(err, &rejected) || rejected.Code != "UNAUTHENTICATED" || rejected.Detail != "as the script says" {
		t.Errorf("the error is %v", err)
	}
	noneLeft(t)
}

func TestAServerThatIsNoneOfOursIsNotAskedForEver(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	w := work(t, silent.Addr().String(), nothing, rosterd.WithConnectTimeout(100*time.Millisecond))
	scripted.Until(t, "two attempts", func() bool { return strings.Count(w.log.String(), "no answer in time") >= 2 })
	w.Stop()
	equal(t, "error", w.ends(), nil)
	noneLeft(t)
}

func TestDrainLetsRunsFinishThenHandsThemBack(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), untilStopped)
	session := greeted(t, coordinator)
	session.Send(scripted.Trigger(7, 0))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	session.Send(scripted.Drain(200 * time.Millisecond))
	scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
	session.Send(scripted.Draining())
	equal(t, "outcome", outcomeOf(session.Report()), "HANDED_BACK")
	scripted.Expect(session, (*pb.SessionRequest).GetGoodbye)
	session.Send(scripted.GoodbyeAck())
	equal(t, "error", w.ends(), nil)
}

func TestAContextThatIsDoneMakesTheWorkerLeaveAlsoOneThatWasDoneBefore(t *testing.T) {
	coordinator := scripted.Start(t)
	for _, before := range []bool{false, true} {
		worker, err := rosterd.NewWorker(rosterd.WithServer(coordinator.Address()), rosterd.WithoutSignals())
		if err != nil {
			t.Fatal(err)
		}
		worker.Job("hello", nothing)
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		if before {
			cancel()
		}
		go func() { over <- worker.Run(ctx) }()
		if !before {
			session := greeted(t, coordinator)
			cancel()
			session.Farewell()
		}
		equal(t, "error", <-over, nil)
		cancel()
	}
}

func TestNobodyWhoAnswersTheGoodbyeIsAnError(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), nothing, rosterd.WithLeaveTimeout(100*time.Millisecond))
	session := greeted(t, coordinator)
	w.Stop()
	scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
	if err := w.ends(); !errors.Is(err, rosterd.ErrLeaveTimedOut) {
		t.Errorf("the error is %v", err)
	}
}

func TestHealthTellsWhetherTheWorkerIsAttached(t *testing.T) {
	coordinator := scripted.Start(t)
	w := work(t, coordinator.Address(), nothing, rosterd.WithHealth("127.0.0.1:0"))
	session := coordinator.Accept()
	scripted.Until(t, "health", func() bool { return w.HealthAddr() != nil })
	ask := func(path string) int {
		response, err := http.Get("http://" + w.HealthAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	equal(t, "answers", words(ask("/healthz"), ask("/readyz"), ask("/")), "200 503 404")
	session.Greet(scripted.Welcome("w1"), "hello")
	scripted.Until(t, "ready", func() bool { return ask("/readyz") == 200 })
	w.Stop()
	scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
	equal(t, "answers", words(ask("/healthz"), ask("/readyz")), "200 503")
	session.Send(scripted.Draining())
	scripted.Expect(session, (*pb.SessionRequest).GetGoodbye)
	session.Send(scripted.GoodbyeAck())
	equal(t, "error", w.ends(), nil)
	http.DefaultClient.CloseIdleConnections()
	noneLeft(t)
}

func TestALoggerThatTakesNoLinesHoldsNothingUp(t *testing.T) {
	coordinator := scripted.Start(t)
	stuck := make(chan struct{})
	defer close(stuck)
	hooks := rosterd.Hooks{Attached: func(string, string) { <-stuck }}
	w := work(t, coordinator.Address(), nothing, rosterd.WithHooks(hooks))
	session := greeted(t, coordinator, scripted.Lease(2*time.Second, 50*time.Millisecond, 0))
	for token := range uint64(50) {
		session.Send(scripted.Trigger(token+1, 0))
		equal(t, "outcome", outcomeOf(session.Report()), "SUCCEEDED")
	}
	w.leave(session)
}

// ---- a process of its own

func TestASignalDrainsThenTheProcessEnds(t *testing.T) {
	for name, signals := range map[string][2]syscall.Signal{
		"SIGTERM": {syscall.SIGTERM, syscall.SIGINT}, "SIGINT": {syscall.SIGINT, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			coordinator := scripted.Start(t)
			program := start(t, coordinator.Address(), "ROSTERD_CREDENTIAL=from-the-environment")
			session := greeted(t, coordinator, scripted.Lease(5*time.Second, 100*time.Millisecond, 0))
			equal(t, "authorization", session.Metadata.Get("authorization")[0], "Bearer from-the-environment")
			session.Send(scripted.Trigger(7, 0, parameter("sleep 500;output done")))
			scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
			program.signal(t, signals[0])
			// Like supervisors: the process, and then its group.
			program.signal(t, signals[1])
			scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
			session.Send(scripted.Draining())
			session.ExpectHeartbeatWith(7)
			report := session.Report()
			equal(t, "report", outcomeOf(report)+" "+report.GetOutput(), "SUCCEEDED done")
			scripted.Expect(session, (*pb.SessionRequest).GetGoodbye)
			session.Send(scripted.GoodbyeAck())
			equal(t, "exit code", program.ends(t), 0)
			said := strings.Count(program.errors.String(), "signal received: leaving once 1 run in flight (hello/0 token 7) ended")
			equal(t, "lines that say so", said, 1)
		})
	}
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	coordinator := scripted.Start(t)
	program := start(t, coordinator.Address())
	session := greeted(t, coordinator, scripted.Lease(5*time.Second, 100*time.Millisecond, 0))
	session.Send(scripted.Trigger(7, 0, parameter("ignore 60000")))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	program.signal(t, syscall.SIGTERM)
	scripted.Expect(session, (*pb.SessionRequest).GetDrainRequest)
	// A signal within a second of the first counts as the first, so repeat it until one is later.
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-program.exit:
			ended = true
		case <-again.C:
			_ = program.command.Process.Signal(syscall.SIGTERM)
		}
	}
	equal(t, "exit code", program.command.ProcessState.ExitCode(), 143)
	contains(t, program.errors.String(), "second signal received: exiting immediately; runs in flight are recorded as crashed")
	<-session.Closed
}

func TestAnAcknowledgementThatWaitedInTheSocketWhileTheProcessStoodStillCountsFirst(t *testing.T) {
	coordinator := scripted.Start(t)
	coordinator.AnswerHeartbeats(false)
	program := start(t, coordinator.Address())
	// The first lease ends some 7 s after the Hello, that of the heartbeat some 3 s later.
	session := greeted(t, coordinator, scripted.Lease(9*time.Second, 3*time.Second, 2*time.Second))
	begun := time.Now()
	session.Send(scripted.Trigger(7, 0, parameter("busy 60000")))
	beat := scripted.Expect(session, (*pb.SessionRequest).GetHeartbeat)
	program.signal(t, syscall.SIGSTOP)
	scripted.Until(t, "the first lease is over", func() bool { return time.Since(begun) > 7500*time.Millisecond })
	session.Send(scripted.Assignment(nil), scripted.HeartbeatAck(beat.GetSequence()))
	coordinator.AnswerHeartbeats(true)
	scripted.Until(t, "they are in the socket", func() bool { return time.Since(begun) > 8*time.Second })
	program.signal(t, syscall.SIGCONT)
	session.ExpectHeartbeatWith(7)
	session.Send(scripted.Cancel(7, 0, pb.CancelReason_CANCEL_REASON_OPERATOR))
	report := session.Report()
	if outcomeOf(report) != "CANCELLED" {
		t.Errorf("%v\n%s", report, program.errors)
	}
}

func TestAProcessThatStoodStillPastItsLeaseTakesNothingForDone(t *testing.T) {
	coordinator := scripted.Start(t)
	program := start(t, coordinator.Address())
	session := greeted(t, coordinator, scripted.Lease(2*time.Second, 200*time.Millisecond, 100*time.Millisecond))
	session.Send(scripted.Trigger(7, 0, parameter("busy 60000")))
	scripted.Expect(session, (*pb.SessionRequest).GetRunStarted)
	program.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	scripted.Until(t, "the lease is over", func() bool { return time.Since(stopped) > 3*time.Second })
	program.signal(t, syscall.SIGCONT)
	// On the next stream: this one was silent for too long.
	<-session.Closed
	next := coordinator.Accept()
	next.Greet(scripted.Welcome("w1"), "hello")
	equal(t, "outcome", outcomeOf(next.Report()), "ABORTED")
}
