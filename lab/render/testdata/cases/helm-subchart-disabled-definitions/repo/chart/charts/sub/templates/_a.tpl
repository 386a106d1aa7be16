{{ define "sub.a" }}a{{ end }}
