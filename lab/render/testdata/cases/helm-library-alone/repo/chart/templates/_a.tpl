{{- define "a" }}a{{ end -}}
