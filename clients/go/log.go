package rosterd

import (
	"context"
	"log/slog"
)

// NewLogHandler adds the ids of the run to every line that is written with the context of a handler, or one derived from it:
//
//	slog.SetDefault(slog.New(rosterd.NewLogHandler(slog.NewJSONHandler(os.Stderr, nil))))
//	slog.InfoContext(ctx, "archived")
func NewLogHandler(next slog.Handler) slog.Handler {
	return logHandler{next}
}

type logHandler struct{ next slog.Handler }

func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if run, found := RunFromContext(ctx); found {
		record = record.Clone()
		record.AddAttrs(run.attrs()...)
	}
	return h.next.Handle(ctx, record)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.next.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.next.WithGroup(name)}
}

// loggerOf adds the ids to every line of a run.
func loggerOf(logger *slog.Logger, run *Run) *slog.Logger {
	return slog.New(logger.Handler().WithAttrs(run.attrs()))
}
