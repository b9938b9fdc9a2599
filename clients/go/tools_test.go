package rosterd_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/scripted"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// TestMain clears the environment: the tests' own servers are on loopback.
func TestMain(m *testing.M) {
	for _, name := range []string{"SERVER", "CREDENTIAL", "CA", "CERT", "KEY", "INSECURE_CREDENTIAL"} {
		if err := os.Unsetenv("ROSTERD_" + name); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// text is a buffer that goroutines write to.
type text struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (t *text) Write(data []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.buffer.Write(data)
}

func (t *text) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.buffer.String()
}

// working is a worker that runs in this process.
type working struct {
	*rosterd.Worker
	t    *testing.T
	log  *text
	over chan error
}

// work makes a worker with one job, hello, and runs it until the test ends.
func work(t *testing.T, server string, handler rosterd.Handler, options ...any) *working {
	t.Helper()
	w := &working{t: t, log: new(text), over: make(chan error, 1)}
	given := []rosterd.Option{
		rosterd.WithServer(server), rosterd.WithSlots(4), rosterd.WithAddress("10.0.0.1"), rosterd.WithoutSignals(),
		rosterd.WithLogger(slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	}
	var ofJob []rosterd.JobOption
	for _, option := range options {
		switch option := option.(type) {
		case rosterd.Option:
			given = append(given, option)
		case rosterd.JobOption:
			ofJob = append(ofJob, option)
		default:
			t.Fatalf("%T is no option", option)
		}
	}
	worker, err := rosterd.NewWorker(given...)
	if err != nil {
		t.Fatal(err)
	}
	worker.Job("hello", handler, ofJob...)
	w.Worker = worker
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.over <- worker.Run(ctx)
	}()
	t.Cleanup(func() {
		worker.StopWithin(0)
		cancel()
		select {
		case <-done:
		case <-time.After(scripted.Patience):
			t.Error("the worker does not end")
		}
	})
	return w
}

// ends waits for what Run returns.
func (w *working) ends() error {
	w.t.Helper()
	select {
	case err := <-w.over:
		return err
	case <-time.After(scripted.Patience):
		w.t.Fatal("the worker does not end")
		return nil
	}
}

// leave makes an idle worker leave.
func (w *working) leave(session *scripted.Session) {
	w.t.Helper()
	w.Stop()
	session.Farewell()
	if err := w.ends(); err != nil {
		w.t.Fatal(err)
	}
}

func nothing(context.Context, *rosterd.Run) error { return nil }

// untilStopped waits until the run must stop, and returns why.
func untilStopped(ctx context.Context, _ *rosterd.Run) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func greeted(t *testing.T, coordinator *scripted.Coordinator, change ...func(*pb.Welcome)) *scripted.Session {
	t.Helper()
	session := coordinator.Accept()
	session.Greet(scripted.Welcome("w1", change...), "hello")
	return session
}

func parameter(text string) func(*pb.Trigger) {
	return func(trigger *pb.Trigger) { trigger.ItemParameter = text }
}

func outcomeOf(report *pb.RunCompleted) string {
	return strings.TrimPrefix(report.GetOutcome().String(), "RUN_OUTCOME_")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, not %v", what, got, want)
	}
}

// words are values with blanks between them.
func words(values ...any) string {
	return strings.TrimSuffix(fmt.Sprintln(values...), "\n")
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q is not in %s", part, text)
	}
}

// program is the conformance worker in a process of its own.
type program struct {
	command *exec.Cmd
	errors  *text
	exit    chan error
}

var conformance = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "rosterd-go-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "conformance")
	output, err := exec.Command("go", "build", "-o", path, "./conformance").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

func start(t *testing.T, server string, environment ...string) *program {
	t.Helper()
	path, err := conformance()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{command: exec.Command(path), errors: new(text), exit: make(chan error, 1)}
	p.command.Env = append(os.Environ(), "ROSTERD_SERVER="+server, "CONFORMANCE_JOBS=hello")
	p.command.Env = append(p.command.Env, environment...)
	p.command.Stderr = p.errors
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.exit <- p.command.Wait()
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-done
	})
	return p
}

func (p *program) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func (p *program) ends(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exit:
		return p.command.ProcessState.ExitCode()
	case <-time.After(scripted.Patience):
		t.Fatal("the process does not end")
		return 0
	}
}

// noneLeft waits until all goroutines of the worker have ended.
func noneLeft(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	scripted.Until(t, "no goroutine is left", func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		for _, one := range strings.Split(all, "\n\n") {
			if strings.Contains(one, "clients/go.") || strings.Contains(one, "clients/go/internal/driver") ||
				strings.Contains(one, "clients/go/internal/wire") {
				if !strings.Contains(one, "clients/go_test.") {
					return false
				}
			}
		}
		return true
	})
}
