//go:build race

package bmp

// raceEnabled is true under the race detector, which finds what others have done, too.
const raceEnabled = true
