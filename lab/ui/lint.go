package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
)

// LintResult is `lab lint -o json`.
type LintResult struct {
	Lab      string            `json:"lab"`
	Engine   string            `json:"engine"`
	Findings List[LintFinding] `json:"findings"` // by rule, file and line
	Errors   int               `json:"errors"`
	Warnings int               `json:"warnings"`
	Notes    int               `json:"notes"`
	Ignored  int               `json:"ignored"` // comments that ignore findings
}

// LintFinding is a finding in LintResult.
type LintFinding struct {
	Rule        string `json:"rule"`
	Severity    string `json:"severity"` // error, warning or note
	File        string `json:"file"`
	Line        int    `json:"line"`   // 0 if unknown
	Column      int    `json:"column"` // likewise
	Cluster     string `json:"cluster"`
	Application string `json:"application"`
	Object      string `json:"object"` // KIND NAMESPACE/NAME
	Message     string `json:"message"`
	Cure        string `json:"cure"`
}

// NewLintResult converts findings.
func NewLintResult(labName, engine string, findings []finding.Finding, ignored int) LintResult {
	res := LintResult{Lab: labName, Engine: engine, Ignored: ignored}
	for _, f := range findings {
		switch f.Severity {
		case finding.Error:
			res.Errors++
		case finding.Warning:
			res.Warnings++
		default:
			res.Notes++
		}
		res.Findings = append(res.Findings, LintFinding{
			Rule: f.Rule, Severity: string(f.Severity), File: f.File, Line: f.Line, Column: f.Column,
			Cluster: f.Subject.Cluster, Application: f.Subject.Application, Object: f.Subject.Object, Message: f.Message, Cure: f.Cure,
		})
	}
	return res
}

// Linted prints `lab lint`.
func (u *UI) Linted(res LintResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	p := paint(u.opts.OutColor)
	for i := 0; i < len(res.Findings); {
		first := res.Findings[i]
		rule, _ := finding.ByCode(first.Rule)
		head := fmt.Sprintf("%s: %s", first.Rule, rule.Title)
		u.Print(p.text(map[string]style{"error": red, "warning": yellow}[first.Severity], first.Severity) + " " + head)
		var problems lab.Problems
		for ; i < len(res.Findings) && res.Findings[i].Rule == first.Rule && res.Findings[i].Severity == first.Severity; i++ {
			f := res.Findings[i]
			problem := lab.Problem{Position: lab.Position{File: f.File, Line: f.Line}, Message: f.Message, Cure: f.Cure}
			if f.Cure == rule.Cure {
				problem.Cure = ""
			}
			problems = append(problems, problem)
		}
		u.Raw(problemLines(problems, u.outWidth(), p))
		u.Raw(strings.Join(wrap("  cure: "+rule.Cure, u.outWidth()), "\n") + "\n\n")
	}
	u.Print(res.summary())
	return nil
}

func (r LintResult) summary() string {
	var parts []string
	for _, of := range []struct {
		n    int
		what string
	}{{r.Errors, "error"}, {r.Warnings, "warning"}, {r.Notes, "note"}} {
		if of.n > 0 {
			parts = append(parts, Count(of.n, of.what))
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "no findings")
	if r.Ignored > 0 {
		text += fmt.Sprintf("; %s ignored by comments", Count(r.Ignored, "line"))
	}
	return text
}

// Types of SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results    []sarifResult `json:"results"`
		ColumnKind string        `json:"columnKind"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string     `json:"id"`
		Short   sarifText  `json:"shortDescription"`
		Full    sarifText  `json:"fullDescription"`
		Help    sarifText  `json:"help"`
		Default sarifLevel `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Index     int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPlace `json:"physicalLocation"`
	}
	sarifPlace struct {
		File   sarifFile    `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	}
	sarifFile struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
)

// Sarif prints `lab lint -o sarif`. folder is that of the estate in its repository.
func (u *UI) Sarif(res LintResult, version, folder string) error {
	run := sarifRun{Results: []sarifResult{}, ColumnKind: "unicodeCodePoints"}
	run.Tool.Driver = sarifDriver{Name: "lab", Version: version, Rules: []sarifRule{}}
	index := map[string]int{}
	for i, r := range finding.Rules() {
		index[r.Code] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: r.Code, Short: sarifText{r.Title}, Full: sarifText{r.Why}, Help: sarifText{r.Cure}, Default: sarifLevel{string(r.Severity)},
		})
	}
	for _, f := range res.Findings {
		message := f.Message
		if f.Cure != "" {
			message += ": " + f.Cure
		}
		of := sarifResult{Rule: f.Rule, Index: index[f.Rule], Level: f.Severity, Message: sarifText{message}, Locations: []sarifLocation{}}
		if f.File != "" {
			at := sarifPlace{File: sarifFile{URI: (&url.URL{Path: path.Join(folder, f.File)}).String(), Base: "%SRCROOT%"}}
			if path.IsAbs(f.File) {
				at.File = sarifFile{URI: (&url.URL{Scheme: "file", Path: f.File}).String()}
			}
			if f.Line > 0 {
				at.Region = &sarifRegion{f.Line, f.Column}
			}
			of.Locations = append(of.Locations, sarifLocation{at})
		}
		run.Results = append(run.Results, of)
	}
	return u.JSON(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}
