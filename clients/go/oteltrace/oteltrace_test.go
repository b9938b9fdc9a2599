package oteltrace_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/oteltrace"
	"github.com/rosterd/rosterd/clients/go/rosterdtest"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestAHandlerRunsWithinTheTraceOfItsRun(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	boom := errors.New("boom")
	inner := func(ctx context.Context, run *rosterd.Run) error {
		if found := trace.SpanContextFromContext(ctx); found.TraceID().String() != traceID {
			t.Errorf("the trace is %v", found.TraceID())
		}
		if found, is := rosterd.RunFromContext(ctx); !is || found != run {
			t.Error("the context does not know its run")
		}
		_, child := provider.Tracer("user").Start(ctx, "of the user")
		child.End()
		return boom
	}
	handler := oteltrace.Middleware(oteltrace.WithTracerProvider(provider))(inner)
	end := rosterdtest.Call(t.Context(), handler, rosterdtest.Trigger{
		Job: "billing", TraceContext: map[string]string{"traceparent": parent, "tracestate": "a=b"},
	})
	if !errors.Is(end.Err, boom) {
		t.Errorf("the error is %v", end.Err)
	}
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	user, run := ended[0], ended[1]
	if user.Parent().SpanID() != run.SpanContext().SpanID() {
		t.Error("the user's span is not below the run's")
	}
	if run.Name() != "run billing" || run.Parent().SpanID().String() != "00f067aa0ba902b7" || !run.Parent().IsRemote() {
		t.Errorf("%s below %v", run.Name(), run.Parent())
	}
	if run.Status().Code != codes.Error || run.SpanContext().TraceState().String() != "a=b" {
		t.Errorf("%v %v", run.Status(), run.SpanContext().TraceState())
	}
}

func TestARunWithoutATraceBeginsOne(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	nothing := func(context.Context, *rosterd.Run) error { return nil }
	rosterdtest.Call(t.Context(), oteltrace.Middleware(oteltrace.WithTracerProvider(provider))(nothing), rosterdtest.Trigger{})
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Parent().IsValid() || ended[0].Status().Code != codes.Unset {
		t.Errorf("%v", ended)
	}
}
