{{ define "lib.a" }}{{ .Chart.Name }}{{ end }}
