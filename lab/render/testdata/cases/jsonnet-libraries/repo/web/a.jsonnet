local cm = import 'cm.libsonnet';
local own = import 'own.libsonnet';
[cm.new('a') + {data: {text: importstr 'text.txt'}}, own.new('b'), null]
