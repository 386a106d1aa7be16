local a = {apiVersion:: 'hidden', kind: 'ConfigMap'};
a {apiVersion::: 'v1', metadata: {name: 'b', [if true then 'labels']: {x: std.asciiUpper('y')}}, data: {n: '%05.2f' % 3.14159, s: std.join(',', std.map(function(x) std.toString(x * 2), [1, 2, 3]))}}
