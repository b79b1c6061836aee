// ioredis, plain and as a cluster client, against the instances whose ports are given.
'use strict';
const assert = require('assert');
const Redis = require('ioredis');
const ports = process.argv.slice(2).map(Number);

async function plain(port) {
  const redis = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: 1 });
  await redis.flushall();
  assert.strictEqual(await redis.set('name', 'Nautilus', 'EX', 100), 'OK');
  assert.strictEqual(await redis.get('name'), 'Nautilus');
  assert.strictEqual(await redis.rpush('crew', 'Nemo', 'Ned'), 2);
  assert.deepStrictEqual(await redis.lrange('crew', 0, -1), ['Nemo', 'Ned']);
  const counts = await Promise.all(Array.from({ length: 200 }, () => redis.incr('count')));
  assert.deepStrictEqual(counts, Array.from({ length: 200 }, (_, n) => n + 1));
  const done = await redis.multi().set('{t}a', 1).incr('{t}a').get('{t}a').exec();
  assert.deepStrictEqual(done, [[null, 'OK'], [null, 2], [null, '2']]);
  await assert.rejects(redis.incr('crew'), /WRONGTYPE/);
  await assert.rejects(redis.call('HSET', 'h', 'f', 'v'), /unknown command/);
  redis.disconnect();
}

async function cluster() {
  const cluster = new Redis.Cluster([{ host: '127.0.0.1', port: ports[0] }]);
  await Promise.all(Array.from({ length: 300 }, (_, n) => cluster.set(`j${n}`, n)));
  for (let n = 0; n < 300; n += 1) assert.strictEqual(await cluster.get(`j${n}`), String(n));
  assert.strictEqual(cluster.nodes('master').length, ports.length);
  cluster.disconnect();
}

(async () => {
  for (const port of ports) await plain(port);
  await cluster();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
