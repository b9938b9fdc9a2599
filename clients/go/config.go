package rosterd

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// JobConfig is how a job is scheduled and run. Fields that are not set have the defaults on the guide's page on job
// fields.
type JobConfig struct {
	// Items is the number of items, 1 to 100000.
	Items int
	// Cron is in Quartz notation, `0/30 * * * * ?`; without one the job runs only when it is triggered.
	Cron string
	// TimeZone is the schedule's, an IANA name. Default: UTC.
	TimeZone string
	// ItemParameters are one per item, by position; an empty one is left out. No commas in them.
	ItemParameters []string
	// JobParameter is one parameter for all items.
	JobParameter string
	Description  string
	// Label is a label of the job, for people.
	Label string
	// Props are properties by name, which the worker gets.
	Props map[string]string
	// Disabled: the job starts disabled.
	Disabled bool
	// MonitorExecution keeps a record of running items; without it there is no failover, no misfire, and there are no offsets.
	// Default: true.
	MonitorExecution *bool
	// Failover runs an item elsewhere when its worker has died.
	Failover bool
	// Misfire runs an item once more if it was busy at a scheduled time. Default: true.
	Misfire *bool
	// Strategy is how items are spread over instances: AVG_ALLOCATION (default), ODEVITY, ROUND_ROBIN, STICKY.
	Strategy string
	// Kind is how a run goes: simple (default) or dataflow.
	Kind string
	// Streaming: a dataflow fetches again until there is nothing.
	Streaming bool
	// ReconcileIntervalMinutes is how often the assignment is checked without a cause; below 1: never. Default: 10.
	ReconcileIntervalMinutes *int
	// Timeout: a run that takes longer is told to stop, and has timed out. Default: none.
	Timeout time.Duration
	// Retries are the attempts of one run.
	Retries *Retries
	// MaxFailovers is how often a run is failed over after its worker died. Default: 3.
	MaxFailovers *int
	// CatchUpWindow is the age up to which a late fire runs as if on time. Default: 10 s.
	CatchUpWindow time.Duration
	// TooLate is how older fires are handled: run_once or missed.
	TooLate string
	// Gap is how a scheduled time that daylight saving skips is handled: fire_at_end (default) or skip.
	Gap string
	// DisconnectGrace: a worker without heartbeats for this long is marked dead, 100 ms to 10 min. Default: the lease.
	DisconnectGrace time.Duration
	// MaxClockDifference: a coordinator whose clock is off by more does not fire this job.
	MaxClockDifference time.Duration
	// Guarantee asks for callbacks before the first and after the last item of a fire.
	Guarantee *Guarantee
}

// Retries are the attempts of one run.
type Retries struct {
	// MaxAttempts is 1 to 100, the first included. Default: 1.
	MaxAttempts int
	// Backoff is the pause before the second attempt. Default: 1 s.
	Backoff time.Duration
	// BackoffMultiplier: each further pause is this many times as long as the one before. Default: 2.
	BackoffMultiplier int
	// BackoffMax: no pause is longer. Default: 1 min.
	BackoffMax time.Duration
}

// Guarantee asks for callbacks.
type Guarantee struct {
	// Started holds each fire until one worker has answered its callback.
	Started bool
	// Completed calls back one worker when all items of a fire have completed.
	Completed bool
	// Timeout is how long to wait for all items to start, and then for the answer. Default: 1 min.
	Timeout time.Duration
	// OnTimeout is how a held fire without an answer is handled: run (default) or skip.
	OnTimeout string
}

// Ptr points to a value: for fields of JobConfig whose default is not their zero value.
func Ptr[T any](value T) *T {
	return &value
}

// jobFile is the job file that a registration carries. The coordinator validates the values; what it cannot see is
// validated here.
type jobFile struct {
	JobName                  string            `json:"jobName"`
	Cron                     string            `json:"cron,omitempty"`
	TimeZone                 string            `json:"timeZone,omitempty"`
	ShardingTotalCount       int               `json:"shardingTotalCount"`
	ShardingItemParameters   string            `json:"shardingItemParameters,omitempty"`
	JobParameter             string            `json:"jobParameter,omitempty"`
	Description              string            `json:"description,omitempty"`
	Label                    string            `json:"label,omitempty"`
	Props                    map[string]string `json:"props,omitempty"`
	Disabled                 bool              `json:"disabled,omitempty"`
	MonitorExecution         *bool             `json:"monitorExecution,omitempty"`
	Failover                 bool              `json:"failover,omitempty"`
	Misfire                  *bool             `json:"misfire,omitempty"`
	JobShardingStrategyType  string            `json:"jobShardingStrategyType,omitempty"`
	ReconcileIntervalMinutes *int              `json:"reconcileIntervalMinutes,omitempty"`
	Rosterd                  rosterdFields     `json:"rosterd,omitzero"`
}

type rosterdFields struct {
	Kind              string           `json:"kind,omitempty"`
	Streaming         bool             `json:"streaming,omitempty"`
	Strategy          string           `json:"strategy,omitempty"`
	RunTimeoutMs      int64            `json:"run_timeout_ms,omitempty"`
	MaxFailovers      *int             `json:"max_failovers,omitempty"`
	CatchUpWindowMs   int64            `json:"catch_up_window_ms,omitempty"`
	TooLate           string           `json:"too_late,omitempty"`
	Gap               string           `json:"gap,omitempty"`
	DisconnectGraceMs int64            `json:"disconnect_grace_ms,omitempty"`
	MaxClockDiffMs    int64            `json:"max_clock_diff_ms,omitempty"`
	Retries           *retriesFields   `json:"retries,omitempty"`
	Guarantee         *guaranteeFields `json:"guarantee,omitempty"`
}

type retriesFields struct {
	MaxAttempts       int   `json:"max_attempts,omitempty"`
	BackoffMs         int64 `json:"backoff_ms,omitempty"`
	BackoffMultiplier int   `json:"backoff_multiplier,omitempty"`
	BackoffMaxMs      int64 `json:"backoff_max_ms,omitempty"`
}

type guaranteeFields struct {
	Started   bool   `json:"started,omitempty"`
	Completed bool   `json:"completed,omitempty"`
	TimeoutMs int64  `json:"timeout_ms,omitempty"`
	OnTimeout string `json:"on_timeout,omitempty"`
}

func (c *JobConfig) text(job string) (string, error) {
	parameters, err := c.parametersText(job)
	if err != nil {
		return "", err
	}
	file := jobFile{
		JobName:                  job,
		Cron:                     c.Cron,
		TimeZone:                 c.TimeZone,
		ShardingTotalCount:       c.Items,
		ShardingItemParameters:   parameters,
		JobParameter:             c.JobParameter,
		Description:              c.Description,
		Label:                    c.Label,
		Props:                    c.Props,
		Disabled:                 c.Disabled,
		MonitorExecution:         c.MonitorExecution,
		Failover:                 c.Failover,
		Misfire:                  c.Misfire,
		ReconcileIntervalMinutes: c.ReconcileIntervalMinutes,
		Rosterd: rosterdFields{
			Kind:              c.Kind,
			Streaming:         c.Streaming,
			RunTimeoutMs:      c.Timeout.Milliseconds(),
			MaxFailovers:      c.MaxFailovers,
			CatchUpWindowMs:   c.CatchUpWindow.Milliseconds(),
			TooLate:           c.TooLate,
			Gap:               c.Gap,
			DisconnectGraceMs: c.DisconnectGrace.Milliseconds(),
			MaxClockDiffMs:    c.MaxClockDifference.Milliseconds(),
		},
	}
	switch c.Strategy {
	case "AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN":
		file.JobShardingStrategyType = c.Strategy
	default:
		file.Rosterd.Strategy = c.Strategy
	}
	if r := c.Retries; r != nil {
		file.Rosterd.Retries = &retriesFields{r.MaxAttempts, r.Backoff.Milliseconds(), r.BackoffMultiplier, r.BackoffMax.Milliseconds()}
	}
	if g := c.Guarantee; g != nil {
		file.Rosterd.Guarantee = &guaranteeFields{g.Started, g.Completed, g.Timeout.Milliseconds(), g.OnTimeout}
	}
	text, err := json.Marshal(file)
	return string(text), err
}

func (c *JobConfig) parametersText(job string) (string, error) {
	var parts []string
	for item, parameter := range c.ItemParameters {
		switch {
		case parameter == "":
			continue
		case item >= c.Items:
			return "", invalid("job %q: ItemParameters[%d]: there is no such item of %d", job, item, c.Items)
		case strings.Contains(parameter, ","):
			return "", invalid("job %q: ItemParameters[%d] is %q: a job file parts parameters by commas: use another sign", job, item, parameter)
		}
		parts = append(parts, strconv.Itoa(item)+"="+parameter)
	}
	return strings.Join(parts, ","), nil
}
