{{- define "down" }}{{ if gt (int .) 0 }}{{ . }}{{ include "down" (sub . 1) }}{{ end }}{{ end -}}
