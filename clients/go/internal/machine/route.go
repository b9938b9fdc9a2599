package machine

import (
	"slices"
	"strings"
	"time"
)

const (
	firstDelay = 200 * time.Millisecond
	// maxPassedOver bounds the ignored addresses that are logged.
	maxPassedOver = 100
)

// Secure reports whether an address uses TLS.
func Secure(address string) bool {
	return strings.HasPrefix(address, "https://")
}

// route is which coordinator to try next, and when: the configured ones, then those that the last Welcome named.
type route struct {
	given     []string
	addresses []string
	// chance returns a number from 0 to 1.
	chance   func() float64
	position int
	// losses are those since the start, or since an acknowledged heartbeat.
	losses int
	// trusted reports whether an address that only a Welcome named may be tried.
	trusted func(address string) bool
	// passedOver are those that may not, each logged once.
	passedOver map[string]bool
}

func newRoute(given []string, trusted func(string) bool, chance func() float64) route {
	return route{
		given: given, addresses: unique(given), chance: chance, position: -1, trusted: trusted, passedOver: make(map[string]bool),
	}
}

// learn takes the addresses of a Welcome, and returns those that it ignores for the first time: a credential goes only
// to coordinators that the user has named.
func (r *route) learn(addresses []string) (passedOver []string) {
	current := ""
	if r.position >= 0 {
		current = r.addresses[r.position]
	}
	// A credential that was only sent over TLS is never sent in the clear.
	tls := !slices.ContainsFunc(r.given, func(address string) bool { return !Secure(address) })
	all := slices.Clone(r.given)
	for _, address := range addresses {
		if tls && address != "" && !strings.Contains(address, "://") {
			address = "https://" + address
		}
		switch {
		case address == "":
		case slices.Contains(r.given, address) || ((Secure(address) || !tls) && r.trusted(address)):
			all = append(all, address)
		case !r.passedOver[address] && len(r.passedOver) < maxPassedOver:
			r.passedOver[address] = true
			passedOver = append(passedOver, address)
		}
	}
	r.addresses = unique(all)
	r.position = slices.Index(r.addresses, current)
	return passedOver
}

// take returns the next coordinator in turn.
func (r *route) take() string {
	r.position = (r.position + 1) % len(r.addresses)
	return r.addresses[r.position]
}

// lost counts a loss, and returns how long to wait before the next attempt: after the first loss, not at all.
func (r *route) lost(longest time.Duration) time.Duration {
	r.losses++
	if r.losses == 1 {
		return 0
	}
	full := min(longest, firstDelay<<min(r.losses-2, 16))
	return time.Duration(float64(full) * (0.5 + 0.5*r.chance()))
}

// good marks that the stream has proved itself.
func (r *route) good() {
	r.losses = 0
}

func unique(addresses []string) []string {
	found := make([]string, 0, len(addresses))
	for _, address := range addresses {
		if !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	return found
}
