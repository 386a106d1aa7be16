package cluster

import (
	"fmt"
	"strings"
	"unicode"

	"homelab/lab"

	"sigs.k8s.io/kind/pkg/log"
)

// statusLogger turns kind's status lines (" • Preparing nodes 📦  ...") into progress. kind's warnings are dropped, as they concern deliberate choices of lab
// (its network, cgroup v1, which doctor reports); its errors are returned as errors.
type statusLogger struct {
	progress lab.Progress
	started  func(status string) // called when a phase starts; may be nil
}

var _ log.Logger = statusLogger{}

func (l statusLogger) Warn(string)           {}
func (l statusLogger) Warnf(string, ...any)  {}
func (l statusLogger) Error(string)          {}
func (l statusLogger) Errorf(string, ...any) {}

func (l statusLogger) V(level log.Level) log.InfoLogger {
	if level > 0 {
		return log.NoopInfoLogger{}
	}
	return l
}

func (l statusLogger) Enabled() bool { return true }

func (l statusLogger) Infof(format string, args ...any) { l.Info(fmt.Sprintf(format, args...)) }

func (l statusLogger) Info(message string) {
	status, ok := phase(message)
	if !ok {
		return
	}
	if l.progress != nil {
		l.progress(status)
	}
	if l.started != nil {
		l.started(status)
	}
}

// phase returns the name of a starting phase, in lower case and without emoji.
func phase(message string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(message), "•")
	if !ok {
		return "", false
	}
	rest = strings.TrimSuffix(rest, "...")
	rest = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, rest)
	rest = strings.Join(strings.Fields(rest), " ")
	if rest == "" {
		return "", false
	}
	return strings.ToLower(rest[:1]) + rest[1:], true
}
