package rosterd

import (
	"errors"
	"fmt"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

// ErrInvalidOption is an option, a name or a value that is not valid; the text names it and the remedy.
var ErrInvalidOption = errors.New("invalid option")

func invalid(format string, given ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidOption, fmt.Errorf(format, given...))
}

// A RefusedError ends a worker: the coordinator refused the job, and the worker has no other.
type RefusedError struct {
	Job string
	// Code is one of the table of error codes, for example JOB_UNKNOWN.
	Code string
	// Detail is the coordinator's message.
	Detail string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("job %s was refused: %s: %s", e.Job, e.Code, e.Detail)
}

// A RejectedError ends a worker: every coordinator rejected it before any welcomed it: its credential, namespace or
// Hello is wrong.
type RejectedError struct {
	// Code is the name of a gRPC status, for example UNAUTHENTICATED.
	Code   string
	Detail string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the coordinator rejected this worker: %s: %s", e.Code, e.Detail)
}

// ErrLeaveTimedOut ends a worker: no coordinator acknowledged its goodbye within the leave timeout, so its runs count
// as crashed.
var ErrLeaveTimedOut = errors.New("the worker left without a goodbye: no coordinator has answered in time")

// ErrStopped matches every reason why a run must stop: errors.Is(context.Cause(ctx), rosterd.ErrStopped).
var ErrStopped = errors.New("the run must stop")

// Why a run must stop, as returned by context.Cause of its context. A handler that returns ErrCancelled on its own ends
// its run as cancelled.
var (
	ErrCancelled  error = stopError(machine.StopOperator)
	ErrTimedOut   error = stopError(machine.StopTimedOut)
	ErrLeaving    error = stopError(machine.StopLeaving)
	ErrLeaseEnded error = stopError(machine.StopLease)
	ErrFenced     error = stopError(machine.StopFenced)
	// ErrMarkedDead: the coordinator gave this process a new identity, and runs of the old one are not reported.
	ErrMarkedDead error = stopError(machine.StopDead)
)

type stopError machine.StopReason

func (e stopError) Error() string {
	return machine.StopReason(e).String()
}

func (e stopError) Is(target error) bool {
	return target == ErrStopped
}

// Fatal marks an error as one that another attempt would not fix: the run fails and is not retried, whatever the job's
// retry policy. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

// IsFatal reports whether an error was marked by Fatal, also if it is wrapped.
func IsFatal(err error) bool {
	var fatal *fatalError
	return errors.As(err, &fatal)
}

type fatalError struct{ error }

func (e *fatalError) Unwrap() error {
	return e.error
}

func errorOf(end machine.End) error {
	switch end.How {
	case machine.Refused:
		return &RefusedError{Job: end.Job, Code: end.Code, Detail: end.Detail}
	case machine.Rejected:
		return &RejectedError{Code: end.Code, Detail: end.Detail}
	case machine.Unacknowledged:
		return ErrLeaveTimedOut
	default:
		return nil
	}
}
