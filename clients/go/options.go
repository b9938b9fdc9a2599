package rosterd

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	"github.com/rosterd/rosterd/clients/go/internal/wire"
)

const (
	defaultServer = "localhost:7700"
	maxSlots      = 4096
	maxLabels     = 32
	maxLabel      = 128
)

// An Option configures a worker. Options that are not set come from the environment; see the package's README.
type Option func(*options)

type options struct {
	settings   machine.Settings
	access     wire.Access
	logger     *slog.Logger
	hooks      Hooks
	middleware []func(Handler) Handler
	health     string
	signals    bool
}

// WithServer names coordinators: host:port, http://host:port or https://host:port; one or several, also separated by commas.
// Default: ROSTERD_SERVER, else localhost:7700.
func WithServer(addresses ...string) Option {
	return func(o *options) { o.settings.Servers = listed(addresses...) }
}

// WithCredential is the secret that is sent as `authorization: Bearer …`. Default: ROSTERD_CREDENTIAL.
func WithCredential(secret string) Option {
	return func(o *options) { o.access.Credential = secret }
}

// WithInsecureCredential sends the credential also in plain text to another machine. Default: ROSTERD_INSECURE_CREDENTIAL=true.
func WithInsecureCredential(allowed bool) Option {
	return func(o *options) { o.access.InsecureCredential = allowed }
}

// WithRootCertificates sets the authorities for coordinators at https:// addresses, in PEM. Default: the file that
// ROSTERD_CA names, else the roots of the system.
func WithRootCertificates(pem []byte) Option {
	return func(o *options) { o.access.Roots = wire.PEM{Text: pem} }
}

// WithClientCertificate is the worker's own certificate and its key, in PEM, if the coordinator requires one. Default:
// the files that ROSTERD_CERT and ROSTERD_KEY name.
func WithClientCertificate(certificate, key []byte) Option {
	return func(o *options) {
		o.access.Certificate = wire.PEM{Text: certificate}
		o.access.Key = wire.PEM{Text: key}
	}
}

// WithTLSConfig is the base of the TLS config; the certificates of other options and of the environment are added to a
// copy of it.
func WithTLSConfig(config *tls.Config) Option {
	return func(o *options) { o.access.Base = config }
}

// WithNamespace is the namespace that the worker expects. Default: any.
func WithNamespace(namespace string) Option {
	return func(o *options) { o.settings.Namespace = namespace }
}

// WithAddress is this machine as operators know it, a label. Default: the address that faces the coordinator.
func WithAddress(address string) Option {
	return func(o *options) { o.settings.Address = address }
}

// WithLabels are free labels, at most 32 of 128 bytes.
func WithLabels(labels map[string]string) Option {
	return func(o *options) { o.settings.Labels = maps.Clone(labels) }
}

// WithSlots is how many runs may be in flight at a time, over all jobs, 1 to 4096. Default: twice the processors, at least 4.
func WithSlots(slots int) Option {
	return func(o *options) { o.settings.Slots = slots }
}

// WithDrainTimeout is how long runs may still take when the worker leaves; then they are cancelled and handed back. Default:
// 30 s.
func WithDrainTimeout(timeout time.Duration) Option {
	return func(o *options) { o.settings.DrainTimeout = timeout }
}

// WithLeaveTimeout is how long the goodbye may take, over all coordinators, once the runs have ended. Default: 10 s.
func WithLeaveTimeout(timeout time.Duration) Option {
	return func(o *options) { o.settings.LeaveTimeout = timeout }
}

// WithConnectTimeout is how long connecting may take. Default: 3 s.
func WithConnectTimeout(timeout time.Duration) Option {
	return func(o *options) { o.settings.ConnectTimeout = timeout }
}

// WithLongestDelay is the longest pause between two attempts to connect. Default: 10 s.
func WithLongestDelay(delay time.Duration) Option {
	return func(o *options) { o.settings.LongestDelay = delay }
}

// WithLogger sets the logger of the worker, and of Run.Log. Default: slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) { o.logger = logger }
}

// WithHooks are for metrics.
func WithHooks(hooks Hooks) Option {
	return func(o *options) { o.hooks = hooks }
}

// WithMiddleware wraps the handlers of all jobs, the first one outermost: for tracing, metrics, common setup. It is
// called for every attempt.
func WithMiddleware(middleware ...func(Handler) Handler) Option {
	return func(o *options) { o.middleware = append(o.middleware, middleware...) }
}

// WithHealth serves /healthz and /readyz over HTTP at host:port, port 0 for any free one (see Worker.HealthAddr).
// Default: off. Worker.HealthHandler is for a server that the program has anyway.
func WithHealth(address string) Option {
	return func(o *options) { o.health = address }
}

// WithoutSignals leaves SIGTERM and SIGINT to the program. Default: they make the worker leave, a second one ends the
// process immediately; one within a second of the first counts as the first.
func WithoutSignals() Option {
	return func(o *options) { o.signals = false }
}

// resolve parses, and reports all defects at once.
func resolve(given []Option, environment func(string) string) (*options, error) {
	o := &options{
		settings: machine.Settings{
			Servers:        listed(environment("ROSTERD_SERVER")),
			Slots:          max(4, 2*runtime.GOMAXPROCS(0)),
			DrainTimeout:   30 * time.Second,
			LeaveTimeout:   10 * time.Second,
			ConnectTimeout: 3 * time.Second,
			LongestDelay:   10 * time.Second,
			Client:         "rosterd-go/" + Version,
		},
		access: wire.Access{
			Credential:         environment("ROSTERD_CREDENTIAL"),
			InsecureCredential: environment("ROSTERD_INSECURE_CREDENTIAL") == "true",
			Roots:              wire.PEM{File: environment("ROSTERD_CA"), Variable: "ROSTERD_CA"},
			Certificate:        wire.PEM{File: environment("ROSTERD_CERT"), Variable: "ROSTERD_CERT"},
			Key:                wire.PEM{File: environment("ROSTERD_KEY"), Variable: "ROSTERD_KEY"},
			UserAgent:          "rosterd-go/" + Version,
		},
		signals: true,
	}
	for _, option := range given {
		option(o)
	}
	if len(o.settings.Servers) == 0 {
		o.settings.Servers = []string{defaultServer}
	}
	if o.logger == nil {
		o.logger = slog.Default()
	}
	return o, errors.Join(append(o.defects(), o.defectsOfAccess()...)...)
}

func listed(texts ...string) []string {
	var found []string
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				found = append(found, part)
			}
		}
	}
	return found
}

func (o *options) defects() []error {
	var defects []error
	defect := func(format string, given ...any) { defects = append(defects, invalid(format, given...)) }
	if slots := o.settings.Slots; slots < 1 || slots > maxSlots {
		defect("slots must be 1 to %d, not %d", maxSlots, slots)
	}
	if count := len(o.settings.Labels); count > maxLabels {
		defect("labels: at most %d, not %d: leave some out", maxLabels, count)
	}
	for _, name := range slices.Sorted(maps.Keys(o.settings.Labels)) {
		if len(name) > maxLabel || len(o.settings.Labels[name]) > maxLabel {
			defect("labels: at most %d bytes each, %q has more: shorten it", maxLabel, name)
		}
	}
	for _, timed := range []struct {
		name string
		time time.Duration
	}{
		{"drain timeout", o.settings.DrainTimeout},
		{"leave timeout", o.settings.LeaveTimeout},
		{"connect timeout", o.settings.ConnectTimeout},
		{"longest delay", o.settings.LongestDelay},
	} {
		if timed.time < 0 {
			defect("the %s must not be negative, not %v", timed.name, timed.time)
		}
	}
	if o.health != "" {
		if _, _, err := net.SplitHostPort(o.health); err != nil {
			defect("health %q is no address: write host:port", o.health)
		}
	}
	return defects
}

func (o *options) defectsOfAccess() []error {
	var defects []error
	for _, server := range o.settings.Servers {
		if _, err := wire.Target(server); err != nil {
			defects = append(defects, invalid("%w", err))
		} else if o.access.Exposes(server) {
			defects = append(defects, invalid("%w", wire.Exposed(server)))
		}
	}
	if strings.ContainsFunc(o.access.Credential, func(r rune) bool { return r < '!' || r > '~' }) {
		defects = append(defects, invalid("credential: it has characters that no credential has, such as blanks or line ends: "+
			"give the secret alone"))
	}
	if _, err := o.access.TLS(); err != nil {
		defects = append(defects, invalid("%w", err))
	}
	return defects
}
