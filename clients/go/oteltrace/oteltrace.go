// Package oteltrace runs handlers within the trace that their runs belong to: all runs of a fire share one. It needs
// only the API of OpenTelemetry.
//
//	w, err := rosterd.NewWorker(rosterd.WithMiddleware(oteltrace.Middleware()))
//
// A handler's context has the span of its attempt, so that spans and outgoing calls of user code belong to it.
package oteltrace

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rosterd/rosterd/clients/go"
)

const scope = "github.com/rosterd/rosterd/clients/go/oteltrace"

// An Option of the middleware.
type Option func(*config)

type config struct {
	provider   trace.TracerProvider
	propagator propagation.TextMapPropagator
}

// WithTracerProvider makes the spans. Default: the global one.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.provider = provider }
}

// WithPropagator reads the run's trace context. Default: W3C Trace Context, which coordinators write.
func WithPropagator(propagator propagation.TextMapPropagator) Option {
	return func(c *config) { c.propagator = propagator }
}

// Middleware makes a span of every attempt.
func Middleware(options ...Option) func(rosterd.Handler) rosterd.Handler {
	c := config{propagator: propagation.TraceContext{}}
	for _, option := range options {
		option(&c)
	}
	return func(next rosterd.Handler) rosterd.Handler {
		return func(ctx context.Context, run *rosterd.Run) error {
			return c.attempt(ctx, run, next)
		}
	}
}

func (c *config) attempt(ctx context.Context, run *rosterd.Run, next rosterd.Handler) error {
	provider := c.provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	ctx = c.propagator.Extract(ctx, propagation.MapCarrier(run.TraceContext))
	ctx, span := provider.Tracer(scope, trace.WithInstrumentationVersion(rosterd.Version)).Start(ctx, "run "+run.Job,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("rosterd.job", run.Job),
			attribute.Int("rosterd.item", run.Item),
			attribute.Int64("rosterd.token", run.Token),
			attribute.Int("rosterd.attempt", run.Attempt),
			attribute.String("rosterd.source", string(run.Source)),
			attribute.String("rosterd.instance", run.InstanceID),
		))
	// A panic passes through.
	defer span.End()
	err := next(ctx, run)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
