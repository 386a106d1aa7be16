package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"

	"homelab/lab"
)

// mirrorPins returns the mirror's own pins, or nil: plain mirrors of upstream have none.
func (r *Registry) mirrorPins(ctx context.Context) (*Pins, error) {
	var w witness
	asking, cancel := context.WithTimeout(w.watch(ctx), r.patience)
	defer cancel()
	pins, err := readPins(r.mirror, r.options(asking))
	switch {
	case err == nil:
		return pins, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case asking.Err() != nil:
		err = fmt.Errorf("no answer within %s, last seen: %s", r.patience, w.seen())
	}
	return nil, &lab.Error{
		Exit: lab.ExitFailed, Code: "registry", Message: "registry mirror " + r.mirror + " could not be listed",
		Cure: "start it or correct --registry-mirror; or use --images source or bundle=FILE", Err: err,
	}
}

// witness traces a request for the message of a timeout.
type witness struct {
	mu   sync.Mutex
	last string
}

func (w *witness) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = what
}

func (w *witness) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == "" {
		return "nothing"
	}
	return w.last
}

func (w *witness) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { w.saw("its address was looked up") },
		ConnectStart:         func(_, addr string) { w.saw("a connection to " + addr + " was started") },
		ConnectDone:          func(_, addr string, err error) { w.connected(addr, err) },
		TLSHandshakeStart:    func() { w.saw("a TLS handshake was started") },
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { w.connected("TLS", err) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.saw("the request was sent") },
		GotFirstResponseByte: func() { w.saw("the answer began") },
	})
}

func (w *witness) connected(to string, err error) {
	if err == nil {
		w.saw(to + " was connected")
	}
}
