// Package machine is the worker's side of the conversation, without I/O: events in, effects out; now is an argument.
//
// It decides when to connect and where, what to send, which run may start, which must stop, and when the worker may
// leave. It reads no clock, opens nothing and calls no user code: package driver does, and is its only caller. Every
// method returns at once. A Machine belongs to one goroutine.
package machine
