// Package finding is what lab says about an estate: problems, notes and the findings of lab lint, each of a rule with a stable code.
package finding

import (
	"cmp"
	"slices"

	"homelab/lab"
)

// Severity is how bad a finding is.
type Severity string

// The severities. lab up refuses an estate with errors of loading; lab lint exits 2 on any error.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note" // nothing to mend: what lab cannot know, or does not do
)

// Rule is a kind of finding.
type Rule struct {
	Code     string
	Severity Severity // of most of its findings: in mounted repositories, lab leaves out what would be an error in the estate
	Title    string   // what is wrong, as a sentence without a full stop
	Why      string
	Cure     string
}

// Subject is what a finding is about. Any part may be empty.
type Subject struct {
	Cluster     string
	Application string
	Object      string // KIND NAMESPACE/NAME
}

// Finding is something that a rule has found.
type Finding struct {
	Rule     string
	Severity Severity
	lab.Position
	Subject Subject
	Message string
	Cure    string
}

// Of converts problems of loading an estate, or notes.
func Of(problems lab.Problems, severity Severity) []Finding {
	var list []Finding
	for _, p := range problems {
		code := p.Code
		if code == "" {
			code = Other
		}
		list = append(list, Finding{Rule: code, Severity: severity, Position: p.Position, Message: p.Message, Cure: p.Cure})
	}
	return list
}

// Sort sorts findings by rule, in the order of Rules, then by position.
func Sort(list []Finding) {
	order := map[string]int{}
	for i, r := range Rules() {
		order[r.Code] = i
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Rule], order[b.Rule]), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message))
	})
}

// ByCode returns the rule of a code.
func ByCode(code string) (Rule, bool) {
	for _, r := range Rules() {
		if r.Code == code {
			return r, true
		}
	}
	return Rule{}, false
}

// Codes returns the codes of all rules.
func Codes() []string {
	var codes []string
	for _, r := range Rules() {
		codes = append(codes, r.Code)
	}
	return codes
}
