package ui

import (
	"html/template"
	"strings"
)

// diffPage needs no scripts and no other files.
var diffPage = template.Must(template.New("diff").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>lab diff</title>
<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }
body { max-width: 80rem; margin: 2rem auto; padding: 0 1rem }
pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0 1rem }
summary { cursor: pointer; font-weight: 600 }
.add { color: light-dark(#116329, #7ee787) } .del { color: light-dark(#a40e26, #ff9492) } .chg { color: light-dark(#7a4d00, #f2cc60) } .mov { color: light-dark(#0550ae, #79c0ff) }
</style></head><body>
<h1>{{.Result.Before}} → {{.Result.After}}</h1>
<p>{{.Summary}}</p>
{{with .Pairs}}<ul>{{range .}}<li>{{.Addon}}: {{.Before}} (of {{.BeforeClusters}}) and {{.After}} (of {{.AfterClusters}})</li>{{end}}</ul>{{end}}
{{range .Sections}}<details open><summary>{{.Title}}</summary><pre>{{range .Lines}}<span class="{{.Class}}">{{.Text}}</span>
{{end}}</pre></details>
{{end}}</body></html>
`))

// DiffHTML returns the comparison as a page, with everything in it.
func DiffHTML(r DiffResult) (string, error) {
	type line struct{ Class, Text string }
	type section struct {
		Title string
		Lines []line
	}
	classes := map[string]string{"+": "add", "-": "del", "~": "chg", "!": "chg", ">": "mov"}
	page := struct {
		Result   DiffResult
		Summary  string
		Pairs    []DiffPair
		Sections []section
	}{Result: r, Summary: r.Summary()}
	for _, p := range r.Pairs {
		if p.Before != "" && p.After != "" {
			page.Pairs = append(page.Pairs, p)
		}
	}
	for _, s := range r.sections(true) {
		of := section{Title: s.title}
		for _, l := range s.lines {
			of.Lines = append(of.Lines, line{classes[l.sign], l.sign + " " + l.text})
		}
		page.Sections = append(page.Sections, of)
	}
	var b strings.Builder
	err := diffPage.Execute(&b, page)
	return b.String(), err
}
