package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client gives orders to the worker behind a socket. The worker is not trusted: what it sends is bounded in size and time.
type Client struct {
	Socket string
	Slack  time.Duration // beyond the time of the job, until the worker counts as stuck
}

// Lost is the error of a worker that ended, or is stuck: the order may be given again.
type Lost struct{ Err error }

func (l *Lost) Error() string { return "the worker was lost: " + l.Err.Error() }

func (l *Lost) Unwrap() error { return l.Err }

// Do returns the results of an order, in the order of its checks. The pack is read once.
func (c Client) Do(ctx context.Context, o Order, pack io.Reader) ([]Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Job.Time+c.Slack, errors.New("it does not answer"))
	defer cancel()
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	source := &failing{from: pack}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+path, source)
	if err != nil {
		return nil, err
	}
	req.Header.Set(header, string(text))
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		if source.err != nil { // not the worker's fault
			return nil, source.err
		}
		return nil, lost(ctx, err)
	}
	defer res.Body.Close()
	const header = 1 << 10
	most := int64(len(o.Job.Checks)) * (2*MaxOutput + 6*MaxSaid + header) // in JSON
	body := io.LimitReader(res.Body, most)
	switch res.StatusCode {
	case http.StatusOK:
	case refused:
		text, _ := io.ReadAll(io.LimitReader(body, header))
		return nil, errors.New(strings.TrimSpace(string(text)))
	default:
		return nil, lost(ctx, errors.New(res.Status))
	}
	decoder := json.NewDecoder(body)
	var list []Result
	for _, want := range o.Job.Checks {
		var r Result
		if err := decoder.Decode(&r); err != nil {
			return list, lost(ctx, err)
		}
		if r.Check != want {
			return list, lost(ctx, fmt.Errorf("it answers %q, not %q", r.Check, want))
		}
		r.Out, r.Said = r.Out[:min(len(r.Out), MaxOutput)], strings.ToValidUTF8(r.Said[:min(len(r.Said), MaxSaid)], "")
		list = append(list, r)
	}
	_, _ = io.Copy(io.Discard, body) // it ends when the worker has cleaned up
	return list, nil
}

func lost(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &Lost{err}
}

// failing keeps the error of a reader.
type failing struct {
	from io.Reader
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
