{{- define "color" }}red{{ end -}}
