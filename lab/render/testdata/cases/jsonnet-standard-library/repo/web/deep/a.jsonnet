local y = std.parseYaml('a: [1, 2]\nb: yes');
{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'a'}, data: {
  y: std.manifestJsonMinified(y), yaml: std.manifestYamlDoc({a: 1}), ini: std.manifestIni({main: {a: 1}, sections: {}}), md5: std.md5('a'), b64: std.base64('a'),
  sorted: std.join(',', std.sort(['b', 'a'])), merged: std.toString(std.mergePatch({a: 1, b: 2}, {b: null})), up: (import '../lib.libsonnet').x, bytes: std.toString(std.encodeUTF8('é')),
}}
