//go:build race

package lpmtest

// raceEnabled is true under the race detector, where pools drop objects at random.
const raceEnabled = true
