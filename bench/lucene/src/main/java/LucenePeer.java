import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.ScoringMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BoostQuery;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.similarities.BM25Similarity;

/**
 * Posts against the words of articles, by Lucene's monitor; `newsift bench peers` starts it.
 *
 * <p>`score QUERIES POSTS OUT` writes the score of each post with each article. Without arguments it
 * takes the job in BENCH_PEER and reads posts from Kafka until it is killed.
 */
public final class LucenePeer {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int BATCH = 256;

  /** Weights of words hold what the articles say; a post's own score knows no other post. */
  private static final BM25Similarity WORDS =
      new BM25Similarity(1.2f, 0f) {
        @Override
        protected float idf(long documents, long count) {
          return 1f;
        }
      };

  private final Monitor monitor = new Monitor(new StandardAnalyzer(), new TermFilteredPresearcher());
  private final int queries;

  private LucenePeer(Path file) throws IOException {
    List<String> lines = Files.readAllLines(file);
    queries = lines.size();
    for (int at = 0; at < queries; at++) {
      BooleanQuery.Builder words = new BooleanQuery.Builder();
      Iterator<Map.Entry<String, JsonNode>> weights = JSON.readTree(lines.get(at)).fields();
      while (weights.hasNext()) {
        Map.Entry<String, JsonNode> word = weights.next();
        TermQuery term = new TermQuery(new Term("text", word.getKey()));
        words.add(new BoostQuery(term, word.getValue().floatValue()), BooleanClause.Occur.SHOULD);
      }
      monitor.register(new MonitorQuery(Integer.toString(at), words.build()));
    }
  }

  private MultiMatchingQueries<ScoringMatch> match(List<String> texts) throws IOException {
    Document[] documents = new Document[texts.size()];
    for (int at = 0; at < documents.length; at++) {
      documents[at] = new Document();
      documents[at].add(new TextField("text", texts.get(at), Field.Store.NO));
    }
    return monitor.match(documents, ScoringMatch.matchWithSimilarity(WORDS));
  }

  private void score(Path posts, Path file) throws IOException {
    List<String> lines = Files.readAllLines(posts);
    try (DataOutputStream out =
        new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
      for (int first = 0; first < lines.size(); first += BATCH) {
        List<String> texts = new ArrayList<>();
        for (String line : lines.subList(first, Math.min(first + BATCH, lines.size()))) {
          texts.add(JSON.readTree(line).textValue());
        }
        MultiMatchingQueries<ScoringMatch> matches = match(texts);
        for (int at = 0; at < texts.size(); at++) {
          float[] scores = new float[queries];
          for (ScoringMatch each : matches.getMatches(at)) {
            scores[Integer.parseInt(each.getQueryId())] = each.getScore();
          }
          for (float each : scores) {
            out.writeFloat(each);
          }
        }
      }
    }
    monitor.close(); // else its thread keeps the program running
  }

  private void run(JsonNode job) throws IOException {
    Properties reading = new Properties();
    reading.put("bootstrap.servers", job.get("kafka").textValue());
    reading.put("group.id", job.get("group").textValue());
    reading.put("enable.auto.commit", "false");
    reading.put("auto.offset.reset", "earliest");
    reading.put("max.poll.records", BATCH);
    Properties writing = new Properties();
    writing.put("bootstrap.servers", job.get("kafka").textValue());
    writing.put("enable.idempotence", "true");
    writing.put("compression.type", "gzip");
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    ByteArraySerializer raw = new ByteArraySerializer();
    String output = job.get("matches").textValue();
    JsonNode thresholds = job.get("thresholds");
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading, bytes, bytes);
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing, raw, raw)) {
      consumer.subscribe(List.of(job.get("posts").textValue()));
      while (true) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        if (records.isEmpty()) {
          continue;
        }
        List<JsonNode> posts = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
          posts.add(JSON.readTree(each.value()));
          texts.add(posts.get(posts.size() - 1).get("text").textValue());
        }
        MultiMatchingQueries<ScoringMatch> matches = match(texts);
        for (int at = 0; at < texts.size(); at++) {
          String post = posts.get(at).get("id").textValue();
          for (ScoringMatch each : matches.getMatches(at)) {
            int seed = Integer.parseInt(each.getQueryId());
            if (each.getScore() >= thresholds.get(seed).doubleValue()) {
              Object match =
                  Map.of(
                      "post", post,
                      "seed", seed,
                      "score", each.getScore(),
                      "source", Map.of("timestamp", records.get(at).timestamp()));
              byte[] value = JSON.writeValueAsBytes(match);
              producer.send(new ProducerRecord<>(output, post.getBytes(), value));
            }
          }
        }
        producer.flush();
        consumer.commitSync();
      }
    }
  }

  public static void main(String[] args) throws IOException {
    if (args.length == 4 && args[0].equals("score")) {
      new LucenePeer(Path.of(args[1])).score(Path.of(args[2]), Path.of(args[3]));
    } else {
      JsonNode job = JSON.readTree(System.getenv("BENCH_PEER"));
      new LucenePeer(Path.of(job.get("seeds").textValue())).run(job);
    }
  }
}
