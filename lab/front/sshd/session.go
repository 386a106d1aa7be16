package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	window   = 1 << 20  // bytes that a client may send ahead
	maxData  = 32 << 10 // bytes of a client's packet
	ownID    = 0        // the one channel
	noAccess = 1        // reason for refusing a channel: prohibited
)

// session is the connection's one channel, and the command that it runs.
type session struct {
	t       *transport
	run     Handler
	ctx     context.Context // of the command
	cancel  context.CancelFunc
	opened  bool
	started bool
	peer    uint32 // the client's number of the channel
	most    uint32 // bytes of a packet to the client

	mu      sync.Mutex
	changed sync.Cond
	credit  uint32 // bytes that the client takes
	input   []byte // that the command has not read yet
	eof     bool   // of input
	ended   bool   // the channel is
	running sync.WaitGroup
}

func newSession(t *transport, run Handler) *session {
	s := &session{t: t, run: run}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed.L = &s.mu
	return s
}

// end lets the command come to an end.
func (s *session) end() {
	s.stop()
	_ = s.t.conn.Close()
	s.running.Wait()
}

// stop tells the command that nobody listens.
func (s *session) stop() {
	s.cancel()
	s.change(func() { s.ended = true })
}

// handle answers one message.
func (s *session) handle(number byte, f *fields) error {
	switch number {
	case msgService:
		return s.reply(f, message{msgServiceAccept}.text(f.text()))
	case msgAuth: // whoever it is
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
	if id := f.num(); f.err != nil || id != ownID || !s.opened {
		return fmt.Errorf("message %d to channel %d, which is not open", number, id)
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
	case msgClose: // the client has more to say, and closes the connection itself
		s.stop()
	case msgExtended:
	default:
		return fmt.Errorf("message %d", number)
	}
	return f.err
}

func (s *session) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.changed.Broadcast()
}

// reply answers a message that was whole.
func (s *session) reply(f *fields, m message) error {
	if f.err != nil {
		return f.err
	}
	return s.t.send(m)
}

func (s *session) open(f *fields) error {
	kind, peer, credit, most := f.text(), f.num(), f.num(), f.num()
	if s.opened || kind != "session" || most == 0 {
		return s.reply(f, message{msgOpenFailure}.num(peer).num(noAccess).text("one session per connection").text(""))
	}
	s.opened, s.peer, s.most = true, peer, min(most, maxData)
	s.change(func() { s.credit = credit })
	return s.reply(f, message{msgOpened}.num(peer).num(ownID).num(window).num(maxData))
}

// request runs a command. What else a client may ask for (an environment, a terminal) it does not get.
func (s *session) request(f *fields) error {
	kind, wanted := f.text(), f.flag()
	if kind != "exec" || s.started {
		if wanted {
			return s.reply(f, message{msgFailure}.num(s.peer))
		}
		return f.err
	}
	command := f.text()
	if wanted {
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
		return errors.New("the client sends more than it may")
	}
	s.input = append(s.input, data...)
	s.changed.Broadcast()
	return err
}

// stdin is what the client sends to the command.
type stdin session

func (in *stdin) Read(p []byte) (int, error) {
	s := (*session)(in)
	s.mu.Lock()
	for len(s.input) == 0 && !s.eof && !s.ended {
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

// output is what the command says, on stdout (0) or stderr.
type output struct {
	s    *session
	kind uint32
}

func (o output) Write(p []byte) (int, error) {
	s, written := o.s, 0
	for len(p) > 0 {
		s.mu.Lock()
		for s.credit == 0 && !s.ended {
			s.changed.Wait()
		}
		if s.ended {
			s.mu.Unlock()
			return written, io.ErrClosedPipe
		}
		n := min(uint32(min(len(p), maxData)), s.credit, s.most)
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
