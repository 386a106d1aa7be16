package registry

import (
	"cmp"
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

// witness keeps the furthest event of a request, for the message of a timeout: HTTPS and HTTP are tried at once.
type witness struct {
	mu    sync.Mutex
	stage stage
	last  string
}

// stage orders the events of a request.
type stage int

const (
	lookedUp stage = iota + 1
	connecting
	connected
	handshake
	secured
	sent
	answered
)

func (w *witness) saw(s stage, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s >= w.stage {
		w.stage, w.last = s, what
	}
}

func (w *witness) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.last, "nothing")
}

func (w *witness) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { w.saw(lookedUp, "its address was looked up") },
		ConnectStart: func(_, addr string) { w.saw(connecting, "a connection to "+addr+" was started") },
		ConnectDone: func(_, addr string, err error) {
			if err == nil {
				w.saw(connected, addr+" was connected")
			}
		},
		TLSHandshakeStart: func() { w.saw(handshake, "a TLS handshake was started") },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				w.saw(secured, "TLS was connected")
			}
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.saw(sent, "the request was sent") },
		GotFirstResponseByte: func() { w.saw(answered, "the answer began") },
	})
}
