package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	window     = 1 << 20  // receive window in bytes
	maxData    = 32 << 10 // bytes of data per packet
	channelID  = 0        // number of the only channel
	prohibited = 1        // reason for refusing a channel
)

// session is a connection's only channel and its command.
type session struct {
	t       *transport
	run     Handler
	ctx     context.Context // of the command
	cancel  context.CancelFunc
	opened  bool
	started bool
	peer    uint32 // the client's channel number
	limit   uint32 // bytes of data per packet to the client

	mu      sync.Mutex
	changed sync.Cond
	credit  uint32 // bytes that the client accepts
	input   []byte // not yet read by the command
	eof     bool   // of input
	closed  bool   // of the channel
	running sync.WaitGroup
}

func newSession(t *transport, run Handler) *session {
	s := &session{t: t, run: run}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed.L = &s.mu
	return s
}

// close stops the command and waits for its return.
func (s *session) close() {
	s.stop()
	_ = s.t.conn.Close()
	s.running.Wait()
}

// stop signals the command that its client is gone.
func (s *session) stop() {
	s.cancel()
	s.change(func() { s.closed = true })
}

// handle processes a message.
func (s *session) handle(number byte, f *fields) error {
	switch number {
	case msgService:
		return s.reply(f, message{msgServiceAccept}.text(f.text()))
	case msgAuth: // any user
		return s.reply(f, message{msgAuthSuccess})
	case msgGlobal:
		if f.text(); f.flag() {
			return s.reply(f, message{msgGlobalFailure})
		}
		return f.err
	case msgOpen:
		return s.open(f)
	case msgGlobalSuccess, msgGlobalFailure, msgOpened, msgOpenFailure, msgSuccess, msgFailure:
		return nil
	}
	if id := f.num(); f.err != nil || id != channelID || !s.opened {
		return fmt.Errorf("message %d for channel %d, which is not open", number, id)
	}
	switch number {
	case msgRequest:
		return s.request(f)
	case msgData:
		return s.receive(f.text(), f.err)
	case msgWindow:
		n := f.num()
		s.change(func() { s.credit += min(n, ^uint32(0)-s.credit) })
	case msgEOF:
		s.change(func() { s.eof = true })
	case msgClose: // more messages may follow; the client closes the connection
		s.stop()
	case msgExtended:
	default:
		return fmt.Errorf("unexpected message %d", number)
	}
	return f.err
}

func (s *session) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// reply sends m if f was parsed without error.
func (s *session) reply(f *fields, m message) error {
	if f.err != nil {
		return f.err
	}
	return s.t.send(m)
}

func (s *session) open(f *fields) error {
	kind, peer, credit, limit := f.text(), f.num(), f.num(), f.num()
	if s.opened || kind != "session" || limit == 0 {
		return s.reply(f, message{msgOpenFailure}.num(peer).num(prohibited).text("one session per connection").text(""))
	}
	s.opened, s.peer, s.limit = true, peer, min(limit, maxData)
	s.change(func() { s.credit = credit })
	return s.reply(f, message{msgOpened}.num(peer).num(channelID).num(window).num(maxData))
}

// request runs a command. Other requests, such as for an environment or a terminal, are refused.
func (s *session) request(f *fields) error {
	kind, wantReply := f.text(), f.flag()
	if kind != "exec" || s.started {
		if wantReply {
			return s.reply(f, message{msgFailure}.num(s.peer))
		}
		return f.err
	}
	command := f.text()
	if wantReply {
		if err := s.reply(f, message{msgSuccess}.num(s.peer)); err != nil {
			return err
		}
	}
	s.started = true
	s.running.Go(func() {
		status := s.run(s.ctx, command, (*stdin)(s), output{s, 0}, output{s, stderr})
		for _, m := range []message{
			message{msgRequest}.num(s.peer).text("exit-status").flag(false).num(uint32(status)), message{msgEOF}.num(s.peer), message{msgClose}.num(s.peer),
		} {
			if s.t.send(m) != nil {
				return // the client is gone
			}
		}
	})
	return f.err
}

func (s *session) receive(data string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.input)+len(data) > window {
		return errors.New("client exceeds its window")
	}
	s.input = append(s.input, data...)
	s.changed.Broadcast()
	return err
}

// stdin reads the client's input to the command.
type stdin session

func (in *stdin) Read(p []byte) (int, error) {
	s := (*session)(in)
	s.mu.Lock()
	for len(s.input) == 0 && !s.eof && !s.closed {
		s.changed.Wait()
	}
	n := copy(p, s.input)
	s.input = s.input[n:]
	s.mu.Unlock()
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, s.t.send(message{msgWindow}.num(s.peer).num(uint32(n)))
}

const stderr = 1

// output writes to the client's stdout (kind 0) or stderr.
type output struct {
	s    *session
	kind uint32
}

func (o output) Write(p []byte) (int, error) {
	s, written := o.s, 0
	for len(p) > 0 {
		s.mu.Lock()
		for s.credit == 0 && !s.closed {
			s.changed.Wait()
		}
		if s.closed {
			s.mu.Unlock()
			return written, io.ErrClosedPipe
		}
		n := min(uint32(min(len(p), maxData)), s.credit, s.limit)
		s.credit -= n
		s.mu.Unlock()
		m := message{msgData}.num(s.peer)
		if o.kind != 0 {
			m = message{msgExtended}.num(s.peer).num(o.kind)
		}
		if err := s.t.send(m.text(string(p[:n]))); err != nil {
			return written, err
		}
		p, written = p[n:], written+int(n)
	}
	return written, nil
}
