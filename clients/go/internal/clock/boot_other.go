//go:build !linux

package clock

import "time"

var begin = time.Now()

// Boot is the time since the process began. On some systems it stands still while the machine sleeps: there a lease is
// found to have ended only once the coordinator says so.
func Boot() time.Duration {
	return time.Since(begin)
}
