package rosterd

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// HealthHandler serves /healthz (the worker has not ended) and /readyz (it is attached, its lease is valid, and it is
// not leaving), for a server that the program has anyway. WithHealth serves it.
func (w *Worker) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	answer := func(path string, ask func() bool) {
		mux.HandleFunc("GET "+path, func(response http.ResponseWriter, _ *http.Request) {
			if ask() {
				fmt.Fprintln(response, "ok")
			} else {
				http.Error(response, "not ready", http.StatusServiceUnavailable)
			}
		})
	}
	answer("/healthz", w.alive)
	answer("/readyz", w.ready)
	return mux
}

// HealthAddr is the address at which WithHealth serves health; nil before.
func (w *Worker) HealthAddr() net.Addr {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.healthAddr
}

// serveHealth returns how to stop it.
func (w *Worker) serveHealth(address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("health cannot be served: %w", err)
	}
	server := &http.Server{
		Handler: w.HealthHandler(), ReadTimeout: time.Second, WriteTimeout: time.Second, MaxHeaderBytes: 16 * 1024,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends when it is closed.
		_ = server.Serve(listener)
	}()
	w.mutex.Lock()
	w.healthAddr = listener.Addr()
	w.mutex.Unlock()
	w.options.logger.Info("health is served on " + listener.Addr().String())
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
