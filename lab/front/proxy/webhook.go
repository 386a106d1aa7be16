package proxy

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// WebhookPath is the path of the forge's webhooks.
const WebhookPath = "/webhook"

const (
	// payloadTimeout limits the wait for a payload's turn and body.
	payloadTimeout = 10 * time.Second
	// engineTimeout is shorter than the forge's timeout.
	engineTimeout = 4 * time.Second
	// repeatAfter is the delay of a second delivery. Argo CD's repo-server keeps the references of whichever listing ended last, even if it began before the push:
	// the engine then syncs the previous commit again and looks no further for two minutes.
	repeatAfter = 3 * time.Second
)

// signatures are the headers that sign a payload, the forge's own first. Engines differ in the header they check.
var signatures = []struct {
	header, prefix string
	hash           func() hash.Hash
}{
	{"X-Gitea-Signature", "", sha256.New},
	{"X-Gogs-Signature", "", sha256.New},
	{"X-Hub-Signature-256", "sha256=", sha256.New},
	{"X-Hub-Signature", "sha1=", sha1.New},
}

// sign sets a payload's signatures.
func sign(h http.Header, secret string, body []byte) {
	for _, s := range signatures {
		mac := hmac.New(s.hash, []byte(secret))
		mac.Write(body)
		h.Set(s.header, s.prefix+hex.EncodeToString(mac.Sum(nil)))
	}
}

// signed reports whether a payload has a signature and all its signatures are valid.
func signed(h http.Header, secret string, body []byte) bool {
	want, found := http.Header{}, false
	sign(want, secret, body)
	for _, s := range signatures {
		if got := h.Get(s.header); got != "" {
			found = true
			if !hmac.Equal([]byte(got), []byte(want.Get(s.header))) {
				return false
			}
		}
	}
	return found
}

// serveWebhook forwards a push to a mirror to the engine: unchanged, and as a push to upstream. It answers with the higher of the engine's statuses, and repeats the
// delivery once.
func (s *Server) serveWebhook(w http.ResponseWriter, r *http.Request) {
	turn, cancel := context.WithTimeout(r.Context(), payloadTimeout)
	defer cancel()
	from := addressOf(r.RemoteAddr)
	if s.payloads.wait(turn, from) != nil {
		http.Error(w, "lab: too many payloads", http.StatusServiceUnavailable)
		return
	}
	defer s.payloads.free(from)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(payloadTimeout)) // not supported by tests' recorders
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "lab: the payload is too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "lab: the payload was not read", http.StatusBadRequest)
		return
	case !signed(r.Header, s.secrets.Webhook, body):
		http.Error(w, "lab: the payload is not signed with the lab's secret", http.StatusUnauthorized)
		return
	}
	rewritten, n, err := s.rewrite(body)
	if err != nil {
		http.Error(w, "lab: the payload is not JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	payloads := [][]byte{body}
	if n > 0 {
		payloads = append(payloads, rewritten)
	}
	header := r.Header.Clone()
	ctx, stop := context.WithTimeout(r.Context(), engineTimeout)
	defer stop()
	statuses := make([]int, len(payloads))
	var wait sync.WaitGroup
	for i, payload := range payloads {
		wait.Go(func() { statuses[i] = s.post(ctx, header, payload) })
	}
	wait.Wait()
	highest := 0
	for _, status := range statuses {
		highest = max(highest, status)
	}
	w.WriteHeader(highest)
	_, _ = fmt.Fprintf(w, "the engine answers %v\n", statuses)
	time.AfterFunc(s.repeatAfter, func() {
		ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
		defer cancel()
		for _, payload := range payloads {
			s.post(ctx, header, payload)
		}
	})
}

// post sends a payload to the engine and returns the status of its answer, or 502 if there is none.
func (s *Server) post(ctx context.Context, header http.Header, body []byte) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.Engine, bytes.NewReader(body))
	if err != nil {
		s.log.Error("engine", "error", err)
		return http.StatusBadGateway
	}
	for name, values := range header {
		if strings.HasPrefix(name, "X-") || name == "Content-Type" || name == "User-Agent" {
			req.Header[name] = values
		}
	}
	sign(req.Header, s.secrets.Webhook, body)
	res, err := s.client.Do(req)
	if err != nil {
		s.log.Error("engine", "error", err)
		return http.StatusBadGateway
	}
	defer func() { _ = res.Body.Close() }()
	const maxText = 4 << 10
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxText)) // only for the log
	if res.StatusCode >= http.StatusBadRequest {
		s.log.Warn("engine", "status", res.StatusCode, "answer", strings.TrimSpace(string(text)))
	}
	return res.StatusCode
}

// rewrite replaces a mirror's address by upstream's in all strings that begin with it, and returns the number of replacements.
func (s *Server) rewrite(payload []byte) (rewritten []byte, n int, err error) {
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, 0, err
	}
	out := each(doc, func(str string) string {
		for _, m := range s.mirrors {
			if to, ok := m.upstreamOf(str); ok {
				n++
				return to
			}
		}
		return str
	})
	rewritten, err = json.Marshal(out)
	return rewritten, n, err
}

// each replaces every string in doc by the result of f.
func each(doc any, f func(string) string) any {
	switch x := doc.(type) {
	case string:
		return f(x)
	case map[string]any:
		for k, v := range x {
			x[k] = each(v, f)
		}
	case []any:
		for i, v := range x {
			x[i] = each(v, f)
		}
	}
	return doc
}

// upstreamOf converts an address within the mirror to upstream's. It ignores the mirror's host, as the forge has several names.
func (m mirror) upstreamOf(address string) (string, bool) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok { // user@host:path
		user, after, _ := strings.Cut(address, ":")
		end, ok := cutRepository("/"+strings.TrimPrefix(after, "/"), m.forge.Path)
		return "git@" + m.upstream.Hostname() + ":" + strings.TrimPrefix(m.upstream.Path, "/") + end, ok && strings.Contains(user, "@")
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return "", false
	}
	end, ok := cutRepository(rest[slash:], m.forge.Path)
	switch scheme {
	case "http", "https":
		return m.upstream.String() + end, ok
	case "ssh":
		return "ssh://git@" + m.upstream.Hostname() + m.upstream.EscapedPath() + end, ok
	}
	return "", false
}

// cutRepository returns the part of a path after a repository.
func cutRepository(path, repository string) (string, bool) {
	end, ok := strings.CutPrefix(path, repository)
	after := strings.TrimPrefix(end, ".git")
	return end, ok && (after == "" || strings.ContainsRune("/?#", rune(after[0])))
}
