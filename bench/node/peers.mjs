// One Node peer against the local upstream: PEER=bottleneck|bullmq, URL, TOKEN, LIMIT requests per WINDOW ms.
//
// The load is scenario S0 at twenty times its speed: a campaign at once, and people beside it. Prints one line of JSON:
// when the last email of the campaign was taken and how long each person waited, in milliseconds. What was refused is read from
// the upstream's log by whoever started this.
import { spawn } from "node:child_process";
import { createServer } from "node:net";

const { PEER, URL: base, TOKEN } = process.env;
const [limit, window, campaign, people, gap] = ["LIMIT", "WINDOW", "CAMPAIGN", "PEOPLE", "GAP"].map((name) => Number(process.env[name]));
const connections = 4;

class Throttled extends Error {
  constructor(after) { super("429"); this.after = after; }
}

async function send(id) {
  const message = {
    subject: "s", internetMessageId: `<${id}@contoso.example>`, body: { contentType: "Text", content: "t" },
    toRecipients: [{ emailAddress: { address: "ann@fabrikam.example" } }],
  };
  const answer = await fetch(`${base}/v1.0/users/noreply@contoso.example/sendMail`, {
    method: "POST", headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ message, saveToSentItems: false }),
  });
  await answer.arrayBuffer();
  if (answer.status === 429) throw new Throttled(1000 * Number(answer.headers.get("retry-after") ?? 1));
  if (answer.status !== 202) throw new Error(`answered ${answer.status}`);
}

// Reservoir refreshed once a window, four at once, priorities, and the retry that its documentation shows.
async function bottleneck() {
  const { default: Bottleneck } = await import("bottleneck");
  const limiter = new Bottleneck({
    maxConcurrent: connections, reservoir: limit, reservoirRefreshAmount: limit, reservoirRefreshInterval: window,
  });
  limiter.on("failed", (error) => (error instanceof Throttled ? error.after : undefined));
  return {
    submit: (id, foreground) => limiter.schedule({ priority: foreground ? 1 : 9 }, () => send(id)),
    close: () => limiter.disconnect(),
  };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function redis() {
  const port = await freePort();
  const server = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"]);
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.stdout.on("data", (text) => String(text).includes("Ready to accept") && resolve());
  });
  return { port, stop: () => server.kill("SIGTERM") };
}

// Its limiter, four at once, priorities, and its own way to say that a provider refused.
async function bullmq() {
  const { Queue, QueueEvents, Worker } = await import("bullmq");
  const { port, stop } = await redis();
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const queue = new Queue("mail", { connection });
  const events = new QueueEvents("mail", { connection });
  const worker = new Worker("mail", async (job) => {
    try {
      await send(job.data.id);
    } catch (error) {
      if (!(error instanceof Throttled)) throw error;
      await worker.rateLimit(error.after);
      throw Worker.RateLimitError();
    }
  }, { connection, concurrency: connections, limiter: { max: limit, duration: window } });
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()]);
  return {
    submit: async (id, foreground) => {
      const job = await queue.add("send", { id }, { priority: foreground ? 1 : 9, removeOnComplete: true });
      await job.waitUntilFinished(events);
    },
    close: async () => { await worker.close(); await events.close(); await queue.close(); stop(); },
  };
}

const wait = (span) => new Promise((resolve) => setTimeout(resolve, span));
const peer = await { bottleneck, bullmq }[PEER]();
const start = performance.now();
const since = () => Math.round(performance.now() - start);

let campaignDone = 0;
const background = Array.from({ length: campaign }, async (_, number) => {
  await peer.submit(`c${number}`, false);
  campaignDone = Math.max(campaignDone, since());
});
const waits = [];
const foreground = [];
for (let number = 0; number < people; number += 1) {
  await wait(gap);
  const asked = since();
  foreground.push(peer.submit(`p${number}`, true).then(() => waits.push(since() - asked)));
}
const all = Promise.all([...background, ...foreground]);
const finished = await Promise.race([all.then(() => true), wait(Number(process.env.CUT_OFF)).then(() => false)]);
console.log(JSON.stringify({ finished, campaignDone, waits: [...waits, ...Array(people - waits.length).fill(since())] }));
await peer.close();
process.exit(0);
