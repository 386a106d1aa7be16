package verb

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"homelab/lab/scenario"
)

// request sends an HTTP request. One that changes nothing is repeated until the answer is as expected.
type request struct {
	changes  `yaml:",inline"`
	URL      string            `yaml:"url" need:"true" doc:"http or https"`
	Method   string            `yaml:"method" enum:"GET,HEAD,POST,PUT,PATCH,DELETE" doc:"default GET; GET and HEAD are repeated until the answer is as expected, others are sent once"`
	Headers  map[string]string `yaml:"headers"`
	Body     string            `yaml:"body"`
	From     *requestFrom      `yaml:"from" doc:"a pod in whose network it is sent; without it, lab does, and only to this machine: localhost, *.localhost"`
	Has      conditions        `yaml:"has" doc:"of the answer: status, body, headers, json if the body is JSON, or error; default: there is an answer"`
	Capture  map[string]string `yaml:"capture" doc:"variable -> path in the answer"`
	Within   time.Duration     `yaml:"within" max:"30m" doc:"how fast the answer must be as expected: a deadline"`
	Patience time.Duration     `yaml:"patience" max:"10m" doc:"without within: how long nothing may move; default 30s"`
	For      time.Duration     `yaml:"for" max:"10m" doc:"how long it must stay so"`
	Since    string            `yaml:"since" doc:"id of an earlier step: within counts from its start, and the time since is reported"`
}

type requestFrom struct {
	Cluster   string `yaml:"cluster" need:"true"`
	Namespace string `yaml:"namespace" need:"true"`
	Pod       string `yaml:"pod" need:"true" doc:"how the name of a running pod begins, such as that of its Deployment"`
}

const (
	requestTimeout = 10 * time.Second
	requestEvery   = time.Second
	maxAnswer      = 64 << 10 // bytes of a body
)

func (q *request) Check(c *scenario.Checker) {
	if u, err := url.Parse(q.URL); !strings.Contains(q.URL, "${") && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		c.Fail("url", fmt.Sprintf("%q is not an address", q.URL), "http://HOST:PORT/PATH")
	} else if err == nil && q.From == nil && !strings.Contains(q.URL, "${") && !here(u.Hostname()) {
		c.Fail("url", u.Hostname()+" is not this machine", "localhost, or send it from a pod: from")
	}
	for _, at := range slices.Sorted(maps.Keys(q.Has)) {
		c.FieldPath("has."+at, at)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Capture)) {
		c.FieldPath("capture."+name, q.Capture[name])
	}
	c.Step("since", q.Since)
	oneLimit(c, q.Within, q.Patience)
}

// here reports whether a host is this machine.
func here(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// Captures returns the variables that it sets.
func (q *request) Captures() []string { return slices.Sorted(maps.Keys(q.Capture)) }

// Scope returns where it shows.
func (q *request) Scope(fs.FS) ([]scenario.Subject, error) {
	if q.From == nil {
		return nil, nil
	}
	return []scenario.Subject{q.subject()}, nil
}

func (q *request) subject() scenario.Subject {
	s := scenario.Subject{Cluster: "outside", APIVersion: "lab/v1alpha1", Kind: "Request", Name: q.method() + " " + q.URL}
	if q.From != nil {
		s.Cluster, s.Namespace = q.From.Cluster, q.From.Namespace
	}
	return s
}

func (q *request) method() string { return cmp.Or(q.Method, http.MethodGet) }

func (q *request) Do(ctx context.Context, c *scenario.Call) error {
	has, every := q.Has, time.Duration(0)
	if len(has) == 0 {
		has = conditions{"error": {op: "exists", want: false}}
	}
	if q.method() == http.MethodGet || q.method() == http.MethodHead {
		every = requestEvery
	}
	ask := func(ctx context.Context) map[string]any { return q.outside(ctx, c) }
	if q.From != nil {
		ask = func(ctx context.Context) map[string]any { return q.inside(ctx, c) }
	}
	k := check{Has: has, Capture: q.Capture, at: q.subject()}
	stop := c.Poll(ctx, k.at, []string{"status", "error"}, every, ask)
	view, err := c.Await(ctx, func(v scenario.View) scenario.Judgement {
		j, answer := k.judgeOne(k.at, v.State(k.at)), v.State(k.at).Object
		if failed, ok := answer["error"].(string); ok && !j.Met {
			j.Seen = failed
		}
		return j
	}, scenario.Limit{Within: q.Within, Patience: cmp.Or(q.Patience, 30*time.Second), Stays: q.For, Since: q.Since})
	stop()
	if err != nil {
		return err
	}
	c.Did("%s: %v", k.at.Name, view[k.at].Object["status"])
	return k.capture(c, view)
}

// outside sends the request from this machine, to this machine.
func (q *request) outside(ctx context.Context, c *scenario.Call) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method(), q.URL, strings.NewReader(q.Body))
	if err == nil && !here(r.URL.Hostname()) {
		err = fmt.Errorf("%s is not this machine", r.URL.Hostname())
	}
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	for name, value := range q.Headers {
		r.Header.Set(name, value)
		if strings.EqualFold(name, "Host") {
			r.Host = value
		}
	}
	transport := c.HTTP
	if transport == nil {
		local := &http.Transport{DialContext: dialHere, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.Roots}}
		defer local.CloseIdleConnections()
		transport = local
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return answerOf(resp)
}

// dialHere connects to this machine whatever the host's name: not all resolvers know *.localhost.
func dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		host = "127.0.0.1"
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(host, port))
}

// answerOf returns the state of an answer, and closes it.
func answerOf(r *http.Response) map[string]any {
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil && len(body) == 0 {
		return map[string]any{"error": err.Error()}
	}
	headers := map[string]any{}
	for name := range r.Header {
		if name != "Date" {
			headers[name] = r.Header.Get(name)
		}
	}
	answer := map[string]any{"status": int64(r.StatusCode), "headers": headers, "body": string(body)}
	var parsed any
	if json.Unmarshal(body, &parsed) == nil {
		answer["json"] = parsed
	}
	return answer
}

// parseAnswer reads what curl printed: the answer as it was on the wire.
func parseAnswer(log []byte) (map[string]any, error) {
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(log)), nil)
	if err != nil {
		return nil, fmt.Errorf("not an answer: %s", scenario.Shown(string(log)))
	}
	return answerOf(r), nil
}
