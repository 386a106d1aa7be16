package verb

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab"
	"homelab/lab/scenario"
)

// changing marks a mutating action.
type changing struct{}

func (changing) Changes() bool { return true }

// changes is a mutating action that may have to be refused.
type changes struct {
	changing
	Outcome string  `yaml:"outcome" enum:"done,refused" doc:"default done; refused: it must be refused, and then has changed nothing"`
	Refusal refusal `yaml:"refusal" doc:"of outcome refused: who refuses it, and how"`
}

// refusal is what an expected refusal must be like.
type refusal struct {
	By      condition `yaml:"by" doc:"API server, webhook NAME, policy NAME, forge, gate (of promote), or lab"`
	Message condition `yaml:"message"`
}

func (r refusal) isZero() bool { return r.By.op == "" && r.Message.op == "" }

// CheckOutcome reports a refusal that is not expected.
func (o changes) CheckOutcome(c *scenario.Checker) {
	if o.Outcome != "refused" && !o.Refusal.isZero() {
		c.Fail("refusal", "refusal needs outcome: refused", "add it")
	}
}

// Settle judges how the action ended.
func (o changes) Settle(c *scenario.Call, err error) error {
	if o.Outcome != "refused" {
		return err
	}
	if err == nil {
		return &scenario.Unmet{Expected: "refused" + o.Refusal.String(), LastSeen: "it was done: " + c.Done()}
	}
	by, message, ok := refusedBy(err)
	if !ok {
		return err
	}
	c.Unchanged()
	return o.Refusal.judge(c, by, message)
}

// judge returns nil if a refusal is as expected.
func (r refusal) judge(c *scenario.Call, by, message string) error {
	if r.By.op != "" && !r.By.holds(by, true) || r.Message.op != "" && !r.Message.holds(message, true) {
		return &scenario.Unmet{Expected: "refused" + r.String(), LastSeen: "refused by " + by + ": " + message}
	}
	c.Did("refused by %s: %s", by, scenario.Shown(message))
	return nil
}

func (r refusal) String() string {
	s := ""
	if r.By.op != "" {
		s += ", by " + r.By.String()
	}
	if r.Message.op != "" {
		s += ", message " + r.Message.String()
	}
	return s
}

// The API server's messages about admission: no other field has the reason.
var (
	webhook = regexp.MustCompile(`(?:admission|failed calling) webhook "([^"]+)"`)
	policy  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
)

// refusedBy returns who refused a change and how, if an error is a refusal: not, for example, a missing object or a timeout.
func refusedBy(err error) (by, message string, ok bool) {
	var status apierrors.APIStatus
	var failed *lab.Error
	switch {
	case errors.As(err, &status):
		s := status.Status()
		if m := webhook.FindStringSubmatch(s.Message); m != nil {
			return "webhook " + m[1], s.Message, true
		}
		if m := policy.FindStringSubmatch(s.Message); m != nil {
			return "policy " + m[1], s.Message, true
		}
		codes := []int32{http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
		return "API server", s.Message, slices.Contains(codes, s.Code)
	case errors.As(err, &failed) && failed.Code == "refused":
		return "forge", strings.Join(append([]string{failed.Message}, failed.Details...), ": "), true
	case errors.As(err, &failed) && slices.Contains([]string{"unrelated", "no_change", "no_branch"}, failed.Code): // of a pull request
		return "lab", failed.Message, true
	case errors.As(err, &failed):
		return "lab", failed.Message, failed.Exit == lab.ExitInvalid
	}
	// The forge's answer to a push is text.
	_, message, ok = strings.Cut(err.Error(), "push to the forge: ")
	return "forge", message, ok && (strings.Contains(message, "command error on") || strings.Contains(message, "hook declined") || strings.Contains(message, "authorization failed"))
}
