package device

import (
	"errors"
	"fmt"
	"slices"
)

// Errors that callers branch on.
var (
	// ErrNoDevice: there is no such GPU, or no driver for it.
	ErrNoDevice = errors.New("no CUDA device")
	// ErrMemory: the device has not enough free memory. Nothing is broken: free something, or try
	// again later.
	ErrMemory = errors.New("out of device memory")
	// ErrLost: the device, or this process's use of it, is broken for good. Only a new process can
	// use it again.
	ErrLost = errors.New("device lost")
	// ErrClosed: the device was closed.
	ErrClosed = errors.New("device is closed")
)

// CUDA's error codes that mean something here (CUDA Driver API, CUresult).
const (
	CodeInvalidValue   = 1
	CodeOutOfMemory    = 2
	CodeNoDevice       = 100
	CodeIllegalAddress = 700
	CodeLaunchFailed   = 719
)

// lostCodes poison the process's context: every later call fails too. ECC error, no longer
// initialised, context gone, NVLink error, illegal address, launch timeout, assert, hardware stack
// error, illegal instruction, misaligned address, invalid address space, invalid PC, launch failed,
// system not ready, MPS client terminated, contained error, unknown.
var lostCodes = []int{3, 4, 201, 214, 220, 709, 700, 702, 710, 714, 715, 716, 717, 718, 719, 802, 810, 226, 999}

// A DriverError is what a driver's call gave.
type DriverError struct {
	Call string // such as "cuLaunchKernel"
	Code int    // CUresult
	Text string // CUDA's name for it
}

func (e *DriverError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code) }

// Is tells which of the errors above a driver's error is.
func (e *DriverError) Is(target error) bool {
	switch target {
	case ErrNoDevice:
		return e.Code == CodeNoDevice
	case ErrMemory:
		return e.Code == CodeOutOfMemory
	case ErrLost:
		return slices.Contains(lostCodes, e.Code)
	}
	return false
}

// A LaunchError is a kernel that could not be started, or that did not end well. A kernel's own
// failure is seen when the device is waited for, so Kernel is then the last one of several.
type LaunchError struct {
	Kernel string
	Err    error
}

func (e *LaunchError) Error() string { return fmt.Sprintf("kernel %s: %v", e.Kernel, e.Err) }
func (e *LaunchError) Unwrap() error { return e.Err }
