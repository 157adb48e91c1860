//go:build !linux

package tune

import "time"

var started = time.Now()

// threadTime is the time that passes: there is no other clock here.
func threadTime() time.Duration { return time.Since(started) }
