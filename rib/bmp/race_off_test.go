//go:build !race

package bmp

const raceEnabled = false
