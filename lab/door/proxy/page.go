package proxy

import (
	"html/template"
	"net/http"
)

var page = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Domain}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}td,th{padding:.2em 1em .2em 0;text-align:left;vertical-align:top}</style></head>
<body><h1>{{.Domain}}</h1>
<table><tr><th>name</th><th>cluster</th><th>object</th></tr>
{{range .Routes}}<tr><td><a href="https://{{.Host}}:{{$.Port}}{{.Path}}">{{.Host}}{{if ne .Path "/"}}{{.Path}}{{end}}</a></td><td>{{.Cluster}}</td><td>{{.Object}}</td></tr>
{{else}}<tr><td>nothing yet</td></tr>
{{end}}</table>
{{with .Problems}}<h2>Not served</h2><table>{{range .}}<tr><td>{{.Cluster}}</td><td>{{.Object}}</td><td>{{.Message}}</td></tr>
{{end}}</table>{{end}}</body></html>
`))

// index is the page of the domain itself.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	c, report := s.config, Report{s.table, s.clusters}
	s.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed, "this page can only be read")
	case r.URL.Path == RoutesPath:
		writeJSON(w, report)
	case r.URL.Path == "/":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		err := page.Execute(w, struct {
			Domain string
			Port   int
			Report
		}{c.Domain, c.HTTPS, report})
		if err != nil {
			s.log.Warn("page", "error", err)
		}
	default:
		refuse(w, http.StatusNotFound, "no such page")
	}
}
