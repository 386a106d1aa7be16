package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxFetch is how long a clone over SSH may take.
const maxFetch = 15 * time.Minute

// sshCommand runs a Git client's SSH command for an upstream host, git-upload-pack '/owner/name.git'.
func (s *Server) sshCommand(ctx context.Context, host, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	start := time.Now()
	err := s.uploadPack(ctx, host, command, stdin, stdout)
	status := 0
	attrs := []any{"host", host, "command", command, "took", time.Since(start).Round(time.Millisecond).String()}
	if err != nil {
		status = 1
		_, _ = fmt.Fprintf(stderr, "lab: %v\n", err)
		s.log.Warn("ssh", append(attrs, "error", err)...)
	} else {
		s.log.Info("ssh", attrs...)
	}
	return status
}

func (s *Server) uploadPack(ctx context.Context, host, command string, stdin io.Reader, stdout io.Writer) error {
	program, path, _ := strings.Cut(command, " ")
	if rest, ok := strings.CutPrefix(program, "git"); ok && rest == "" { // "git upload-pack"
		var sub string
		sub, path, _ = strings.Cut(path, " ")
		program += "-" + sub
	}
	path = strings.ReplaceAll(strings.Trim(path, "'"), `'\''`, "'")
	m, ok := s.mirrors[key(host, path)]
	switch {
	case !ok:
		return fmt.Errorf("%s of %s is not mounted", path, host)
	case "/"+program == receivePack:
		return fmt.Errorf("the mirror of %s is read-only", m.upstream)
	case "/"+program != uploadPack:
		return fmt.Errorf("the mirror of %s supports only git fetch", m.upstream)
	}
	ctx, cancel := context.WithTimeout(ctx, maxFetch)
	defer cancel()
	if err := s.advertise(ctx, m, stdout); err != nil {
		return err
	}
	r := bufio.NewReader(stdin)
	if wants, err := r.Peek(len(flush)); errors.Is(err, io.EOF) || string(wants) == flush {
		return nil // only the list of branches
	}
	request, w := io.Pipe()
	defer request.Close()
	negotiated := make(chan error, 1)
	go func() {
		err := negotiate(r, w, stdout)
		_ = w.CloseWithError(err)
		negotiated <- err
	}()
	pack, err := s.request(ctx, m, http.MethodPost, uploadPack, request)
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := <-negotiated; err != nil {
		return err
	}
	return deliver(bufio.NewReader(pack), stdout)
}

// deliver copies the mirror's answer. Of several ACK lines only the first is kept: git repeats it for commits reachable from the common one.
func deliver(r *bufio.Reader, to io.Writer) error {
	line, _, err := readPkt(r)
	if err != nil {
		return fmt.Errorf("read the forge's answer: %w", err)
	}
	if _, err := io.WriteString(to, pktLine(line)); err != nil {
		return err
	}
	const ack = "ACK "
	for {
		if next, err := r.Peek(len(flush) + len(ack)); err != nil || string(next[len(flush):]) != ack {
			break // the pack, or the end
		}
		if _, _, err := readPkt(r); err != nil {
			return fmt.Errorf("read the forge's answer: %w", err)
		}
	}
	_, err = io.Copy(to, r)
	return err
}

// capabilities are those that need only one request to the mirror, regardless of the client's commits: its answers to several requests are independent.
var capabilities = []string{
	"agent", "allow-reachable-sha1-in-want", "allow-tip-sha1-in-want", "include-tag", "no-progress", "object-format", "ofs-delta", "side-band", "side-band-64k",
	"symref", "thin-pack",
}

// advertise sends the mirror's refs to a client.
func (s *Server) advertise(ctx context.Context, m mirror, to io.Writer) error {
	body, err := s.request(ctx, m, http.MethodGet, infoRefs+"?service="+uploadPack[1:], nil)
	if err != nil {
		return err
	}
	defer body.Close()
	r := bufio.NewReader(body)
	_, _, err1 := readPkt(r) // # service=git-upload-pack
	_, _, err2 := readPkt(r) // end of the section
	first, _, err3 := readPkt(r)
	ref, offered, ok := strings.Cut(strings.TrimSuffix(first, "\n"), "\x00")
	if err := errors.Join(err1, err2, err3); err != nil || !ok {
		return fmt.Errorf("the mirror of %s in the forge answers without a list of branches", m.upstream)
	}
	kept := slices.DeleteFunc(strings.Fields(offered), func(c string) bool {
		name, _, _ := strings.Cut(c, "=")
		return !slices.Contains(capabilities, name)
	})
	if _, err := io.WriteString(to, pktLine(ref+"\x00"+strings.Join(kept, " ")+"\n")); err != nil {
		return err
	}
	_, err = io.Copy(to, r)
	return err
}

// negotiate passes a client's wants and haves on to the mirror, as one request. It answers each flush after the wants with NAK: nothing is in common.
func negotiate(r *bufio.Reader, request, to io.Writer) error {
	size := 0
	for wants := true; ; {
		line, flushed, err := readPkt(r)
		send := pktLine(line)
		switch {
		case err != nil:
			return fmt.Errorf("read the client's request: %w", err)
		case flushed && !wants:
			if _, err := io.WriteString(to, pktLine("NAK\n")); err != nil {
				return err
			}
			continue
		case flushed:
			wants, send = false, flush
		}
		if size += len(send); size > maxWants {
			return errors.New("the client's request is too large")
		}
		if _, err := io.WriteString(request, send); err != nil {
			return err
		}
		if !flushed && strings.TrimSuffix(line, "\n") == "done" {
			return nil
		}
	}
}

// request sends a request to the mirror and returns the body of its answer. Any status but 200 is an error.
func (s *Server) request(ctx context.Context, m mirror, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.forge.String()+".git"+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	}
	if s.secrets.User != "" {
		req.SetBasicAuth(s.secrets.User, s.secrets.Password)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.log.Error("forge", "error", err)
		return nil, fmt.Errorf("the mirror of %s in the forge does not answer", m.upstream)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the mirror of %s in the forge answers with status %d", m.upstream, res.StatusCode)
	}
	return res.Body, nil
}
