package rosterdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/rosterdtest"
)

func ExampleCall() {
	handler := func(_ context.Context, run *rosterd.Run) error {
		run.Count(3, 0)
		run.SetOutput("weather of " + run.ItemParameter)
		return run.SetOffset(append(run.Offset, '!'))
	}
	end := rosterdtest.Call(context.Background(), handler, rosterdtest.Trigger{ItemParameter: "Beijing", Offset: []byte("41")})
	fmt.Println(end.Outcome, end.Output, end.Processed, string(end.Offset))
	// Output: SUCCEEDED weather of Beijing 3 41!
}

func TestFailuresAndWhetherAnotherAttemptWouldFollow(t *testing.T) {
	boom := errors.New("boom")
	for _, one := range []struct {
		err       error
		outcome   rosterdtest.Outcome
		retryable bool
	}{
		{boom, rosterdtest.Failed, true},
		{rosterd.Fatal(boom), rosterdtest.Failed, false},
		{rosterd.ErrCancelled, rosterdtest.Cancelled, false},
	} {
		handler := func(_ context.Context, run *rosterd.Run) error {
			run.Progress(30, "a third")
			return one.err
		}
		end := rosterdtest.Call(t.Context(), handler, rosterdtest.Trigger{})
		if end.Outcome != one.outcome || end.Retryable != one.retryable || !errors.Is(end.Err, one.err) {
			t.Errorf("%v: %+v", one.err, end)
		}
		if end.Percent != 30 || end.Message != "a third" || end.Offset != nil {
			t.Errorf("%+v", end)
		}
	}
}

func TestARunWhoseContextIsDoneMustStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	handler := func(ctx context.Context, _ *rosterd.Run) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	end := rosterdtest.Call(ctx, handler, rosterdtest.Trigger{Deadline: time.Now().Add(time.Hour)})
	if end.Outcome != rosterdtest.Cancelled || end.Error != "an operator asked for it" {
		t.Errorf("%+v", end)
	}
}

func TestAPanicIsAFailureWithItsStack(t *testing.T) {
	end := rosterdtest.Call(t.Context(), func(context.Context, *rosterd.Run) error { panic("no") }, rosterdtest.Trigger{})
	if end.Outcome != rosterdtest.Failed || !end.Retryable || end.Err.Error() != "panic: no" {
		t.Errorf("%+v", end)
	}
}

func TestADataflowThatStreamsEndsBetweenTwoBatchesOfAWorkerThatLeaves(t *testing.T) {
	fetch := func(context.Context, *rosterd.Run) ([]string, error) { return []string{"a", "b"}, nil }
	process := func(context.Context, *rosterd.Run, []string) error { return nil }
	end := rosterdtest.Call(t.Context(), rosterd.Dataflow(fetch, process), rosterdtest.Trigger{Streaming: true, Leaving: true})
	if end.Outcome != rosterdtest.Succeeded || end.Processed != 2 {
		t.Errorf("%+v", end)
	}
}
