// An hour at one look a second, as fast as it goes: the page holds no more at its end than after its first quarter.
const LOOKS = 3600;

await run(async () => {
  const page = await open();
  await isLive(page);
  const session = await page.context().newCDPSession(page);
  const held = async () => {
    for (let times = 0; times < 3; times += 1) await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
    return { bytes: usedSize, nodes, listeners: jsEventListeners };
  };
  // The node's answers are real but for the past, which would take an hour: each look finds a second more.
  await page.evaluate(() => {
    const real = globalThis.fetch;
    let at = Date.now();
    globalThis.fetch = async (path, options) => {
      if (!path.startsWith("/v1/history")) return real(path, options);
      at += 1000;
      const admitted = 100 + Math.round(50 * Math.sin(at / 60_000));
      const step = { at_ms: at, seconds: 1, admitted, denied: at % 7, open_breakers: at % 50_000 < 5000 ? 1 : 0, latency_us: [1, 2, 3], paths: { local: [admitted, at % 7, 0] }, rules: [[0, admitted, at % 7, 0]] };
      const rules = [{ id: 0, tenant: "default", namespace: "api", rule: "per-user" }];
      return new Response(JSON.stringify({ now_ms: at, range: "15m", step_ms: 1000, rules, steps: [step] }));
    };
  });
  const look = (times) => page.evaluate(async (times) => {
    const { live, tick } = await import("/dashboard/live.js");
    const { past } = await import("/dashboard/past.js");
    const before = live.ticks;
    while (live.ticks < before + times) await tick();
    return past.held();
  }, times);
  const views = async (times) => {
    for (const view of VIEWS) {
      await page.evaluate((view) => (location.hash = `#/${view}`), view);
      await look(times);
    }
  };
  await views(50);
  assert.equal(await look(LOOKS / 4), 900, "a quarter of an hour is kept");
  const early = await held();
  await look(LOOKS - LOOKS / 4 - 500);
  await views(50);
  assert.equal(await look(1), 900);
  const late = await held();
  console.error("after a quarter:", early, "after an hour:", late);
  assert.ok(late.nodes <= early.nodes + 300, `${early.nodes} nodes became ${late.nodes}`);
  assert.ok(late.listeners <= early.listeners + 20, `${early.listeners} listeners became ${late.listeners}`);
  assert.ok(late.bytes <= early.bytes * 1.1 + 300_000, `${early.bytes} bytes became ${late.bytes}`);
});
